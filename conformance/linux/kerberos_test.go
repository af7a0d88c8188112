package linux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"manifold/conformance/linux"
	"manifold/conformance/linux/work"
	"manifold/xdr/rpc/gss/krb5/kdctest"
)

// kerberosSuite is the kernel that mounts by Kerberos, one of those with the
// oldest encryption types alone.
const kerberosSuite = "trixie"

// realm is what a guest needs to be a member of a Kerberos realm.
type realm struct {
	kdc            *kdctest.KDC
	server, client string            // keytabs
	users          map[string]string // keytabs
}

// newRealm starts a KDC for server s.
func newRealm(t *testing.T, s *server) *realm {
	t.Helper()
	r := &realm{kdc: kdctest.Start(t, linux.Address+":88"), users: map[string]string{}}
	names := []string{"nfs/mds.test"}
	for i := range s.listen[1:] {
		names = append(names, fmt.Sprintf("nfs/ds%d.test", i+1))
	}
	r.server = r.kdc.Keytab(t, "", names...)
	r.client = r.kdc.Keytab(t, "", "nfs/client.test")
	for _, user := range []string{"daemon", "stranger"} {
		r.users[user] = r.kdc.Keytab(t, "", user)
	}
	return r
}

// join makes a guest a member: names, keys, the daemon that makes security
// contexts for the kernel, and a ticket for the users daemon (1) and stranger.
func (r *realm) join(t *testing.T, c client, s *server, shared string) {
	t.Helper()
	for name, file := range map[string]string{"krb5.conf": r.kdc.Conf, "client": r.client, "daemon": r.users["daemon"], "stranger": r.users["stranger"]} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shared, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hosts := "127.0.0.1 localhost\n10.98.100.10 client.test " + c.Name + "\n" + s.address + " mds.test\n"
	for i, listen := range s.listen[1:] {
		hosts += fmt.Sprintf("%s ds%d.test\n", strings.TrimSuffix(listen, ":2049"), i+1)
	}
	for _, name := range []string{"auth_rpcgss", "rpcsec_gss_krb5"} {
		c.do(t, work.Module{Dir: c.ModuleTree, Name: name})
	}
	c.sh(t, "/", fmt.Sprintf(`
printf %%s '%s' >/etc/hosts
echo 'hosts: files' >/etc/nsswitch.conf.new; grep -v ^hosts: /etc/nsswitch.conf >>/etc/nsswitch.conf.new; mv /etc/nsswitch.conf.new /etc/nsswitch.conf
mkdir -p /lib/modules; rm -rf /lib/modules/$(uname -r); ln -s %s /lib/modules/$(uname -r)
cp %[3]s/krb5.conf /etc/krb5.conf
cp %[3]s/client /etc/krb5.keytab
mkdir -p /run/rpc_pipefs
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
setsid rpc.gssd -f -v -p /run/rpc_pipefs >/tmp/gssd.log 2>&1 </dev/null &
kinit -k -t %[3]s/daemon -c /tmp/krb5cc_1 daemon
chown 1:1 /tmp/krb5cc_1
kinit -k -t %[3]s/stranger -c /tmp/krb5cc_4242 stranger
chown 4242:4242 /tmp/krb5cc_4242
`, hosts, c.ModuleTree, shared))
}

// TestKerberos mounts with each of the three services, writes and reads straight
// from the data servers, and looks who the users are.
func TestKerberos(t *testing.T) {
	w := &world{t: t, bin: tool(t, "manifold"), shared: t.TempDir(), servers: map[string]*server{}}
	s := w.newServer(t, 9, "/dev/shm")
	r := newRealm(t, s)
	s.run(t, "up", s.listen, "up", "--data", filepath.Join(s.dir, "data"), "--listen", s.listen[0],
		"--data-servers", fmt.Sprint(dataServers), "--ds-listen", strings.Join(s.listen[1:], ","), "--admin", s.Admin, "--no-proxy-io",
		"--krb5-keytab", r.server, "--krb5-realm", kdctest.Realm, "--export", "sec=krb5p:krb5i:krb5")
	if err := s.DSUp(t.Context(), dataServers); err != nil {
		t.Fatal(err)
	}
	c := boot(t, kerberosSuite, "krb", w.shared, 9)
	r.join(t, c, s, w.shared)
	t.Cleanup(func() {
		if t.Failed() {
			w.servers["kerberos"] = s
			w.explain(t, c)
			t.Log("gssd:\n" + c.sh(t, "/", "tail -c 6000 /tmp/gssd.log"))
		}
	})
	for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
		t.Run(sec, func(t *testing.T) { kerberosMount(t, c, s, sec) })
	}
	if !strings.Contains(s.processes[0].Log(), `"machine_cred": true`) {
		t.Error("the kernel did not have its state protected (SP4_MACH_CRED)")
	}
}

// kerberosMount works on a mount with one service.
func kerberosMount(t *testing.T, c client, s *server, sec string) {
	const size = 16 << 20
	dir := "/mnt/" + sec
	options := "vers=4.2,sec=" + sec
	direct := func() { c.direct(t, dir) }
	if sec == "krb5p" {
		// Each connection is bound by the machine's credential first; what was sent
		// on it before is sent again, which the client counts.
		options += ",nconnect=2"
		direct = func() { s.noProxy(t) }
	}
	c.do(t, work.Mount{Source: "mds.test:/", Dir: dir, Type: "nfs4", Options: options})
	before := s.settled(t)
	c.sh(t, dir, "mkdir "+sec+"; chmod 777 "+sec)
	script := fmt.Sprintf("cd %s/%s; dd if=/dev/urandom of=file bs=1M count=%d 2>/dev/null; sha256sum <file", dir, sec, size>>20)
	wrote := c.doAs(t, work.Cred{UID: 1, GID: 1}, work.Exec{Argv: []string{"sh", "-ec", script}})
	if wrote.Exit != 0 {
		t.Fatalf("write: %s", wrote.Text)
	}
	s.shares(t, before, size)
	direct()
	c.do(t, work.Unmount{Dir: dir})
	c.do(t, work.Mount{Source: "mds.test:/", Dir: dir, Type: "nfs4", Options: options})
	read := c.doAs(t, work.Cred{UID: 1, GID: 1}, work.Exec{Argv: []string{"sha256sum", dir + "/" + sec + "/file"}})
	if read.Exit != 0 || strings.Fields(read.Text)[0] != strings.Fields(wrote.Text)[0] {
		t.Errorf("read %q, wrote %q", read.Text, wrote.Text)
	}
	direct()
	// A user of the realm that this machine does not know is nobody; one without
	// a ticket is refused.
	other := c.doAs(t, work.Cred{UID: 4242, GID: 4242}, work.Exec{Argv: []string{"touch", dir + "/" + sec + "/of-stranger"}})
	if other.Exit != 0 {
		t.Errorf("a stranger: %s", other.Text)
	}
	none := c.doAs(t, work.Cred{UID: 3, GID: 3}, work.Exec{Argv: []string{"touch", dir + "/" + sec + "/of-nobody"}})
	if none.Exit == 0 {
		t.Error("a user without a ticket made a file")
	}
	if got := c.sh(t, dir+"/"+sec, "stat -c '%n %u' file of-stranger .; stat -f -c %T ."); got != "file 1\nof-stranger 65534\n. 0\nnfs\n" {
		t.Errorf("owners: %q", got)
	}
	c.do(t, work.Unmount{Dir: dir})
}
