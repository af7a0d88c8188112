package mountstats

import "testing"

const sample = `device rootfs mounted on / with fstype rootfs
device proc mounted on /proc with fstype proc
device 10.98.0.1:/ mounted on /mnt/t with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2,rsize=1048576,wsize=1048576,addr=10.98.0.1
	age:	7
	nfsv4:	bm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x68800,acl=0x3,sessions,pnfs=LAYOUT_NFSV4_1_FILES
	sec:	flavor=1,pseudoflavor=1
	events:	1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 90 190 
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
	xprt:	tcp 0 0 1 0 0 12 12 0 12 0 2 0 0
	per-op statistics
	        NULL: 1 1 0 44 24 0 0 0 0
	        READ: 91 92 0 1 2 3 4 5 6
	       WRITE: 190 190 0 1 2 3 4 5 0
	   LAYOUTGET: 3 3 0 1 2 3 4 5 0

device 10.98.0.2:/x mounted on /mnt/u with fstype nfs4 statvers=1.1
	nfsv4:	bm0=0,sessions,pnfs=not configured
	events:	1 2 3
	per-op statistics
	        READ: 5 5 0 1 2 3 4 5
`

func TestParse(t *testing.T) {
	mounts, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	if len(mounts) != 2 {
		t.Fatalf("%d mounts, want 2", len(mounts))
	}
	a, b := mounts[0], mounts[1]
	if a.Device != "10.98.0.1:/" || a.Dir != "/mnt/t" || a.PNFS != "LAYOUT_NFSV4_1_FILES" || a.Opts[:11] != "rw,vers=4.2" {
		t.Errorf("mount %+v", a)
	}
	if a.PNFSReads() != 90 || a.PNFSWrites() != 190 || a.FallbackReads() != 1 || a.FallbackWrites() != 0 {
		t.Errorf("reads %d writes %d to data servers, %d and %d not", a.PNFSReads(), a.PNFSWrites(), a.FallbackReads(), a.FallbackWrites())
	}
	if row := a.Ops["READ"]; row != (OpRow{Count: 91, Sends: 92, Errors: 6}) {
		t.Errorf("READ %+v", row)
	}
	if b.PNFS != "not configured" || b.PNFSReads() != 0 || b.FallbackReads() != 5 {
		t.Errorf("mount %+v", b)
	}
}

func TestParseRefusesNonsense(t *testing.T) {
	for _, bad := range []string{"events: 1 x\n", "per-op statistics\nREAD: 1 2\n"} {
		if _, err := Parse("device a:/ mounted on /b with fstype nfs4 statvers=1.1\n" + bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
