package nfs4

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// golden pairs values with their bytes, written down from the XDR of RFC 5662
// and RFC 7863 by hand, a word a group.
var golden = []struct {
	name  string
	value codec
	hex   string
}{
	{"SEQUENCE args", &SequenceArgs{SessionID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 7, 1, 63, true},
		"01020304 05060708 090a0b0c 0d0e0f10 00000007 00000001 0000003f 00000001"},
	{"SEQUENCE res", &SequenceRes{SessionID{0xff}, 7, 1, 63, 31, SeqStatusCBPathDown | SeqStatusCBPathDownSession},
		"ff000000 00000000 00000000 00000000 00000007 00000001 0000003f 0000001f 00000201"},
	{"PUTFH args", &PutFHArgs{FH("hello")}, "00000005 68656c6c 6f000000"},
	{"GETATTR args", &GetattrArgs{BitmapOf(AttrType, AttrSize, AttrMode)}, "00000002 00000012 00000002"},
	{"READ args", &ReadArgs{Stateid{1, [12]byte{0xaa, 11: 0xbb}}, 1 << 32, 4096},
		"00000001 aa000000 00000000 000000bb 00000001 00000000 00001000"},
	{"READ res", &ReadRes{true, []byte("abcde")}, "00000001 00000005 61626364 65000000"},
	{"WRITE args", &WriteArgs{Stateid{}, 4096, FileSync, []byte{1, 2, 3, 4}},
		"00000000 00000000 00000000 00000000 00000000 00001000 00000002 00000004 01020304"},
	{"WRITE res", &WriteRes{4, DataSync, Verifier{1, 2, 3, 4, 5, 6, 7, 8}}, "00000004 00000001 01020304 05060708"},
	{"OPEN args", &OpenArgs{
		Seqid: 0, ShareAccess: ShareAccessBoth | WantNoDeleg, ShareDeny: ShareDenyNone,
		Owner: OpenOwner{5, []byte("own")},
		How: OpenHow{OpenCreate, CreateHow{Mode: CreateExclusive4_1, Verifier: Verifier{9, 8, 7, 6, 5, 4, 3, 2},
			Attrs: Attrs{Mask: BitmapOf(AttrMode), Mode: 0o644}}},
		Claim: OpenClaim{Type: ClaimNull, Name: []byte("f")},
	}, "00000000 00000403 00000000 00000000 00000005 00000003 6f776e00" +
		"00000001 00000003 09080706 05040302 00000002 00000000 00000002 00000004 000001a4" +
		"00000000 00000001 66000000"},
	{"OPEN args by handle", &OpenArgs{ShareAccess: 1, Owner: OpenOwner{0, []byte{}}, Claim: OpenClaim{Type: ClaimFH}},
		"00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000004"},
	{"OPEN res", &OpenRes{Stateid{Seqid: 1}, ChangeInfo{true, 1, 2}, OpenResultLocktypePosix, Bitmap{},
		OpenDelegation{Type: DelegateNoneExt, None: NoDelegation{Why: NoDelegContention, WillPushDeleg: true}}},
		"00000001 00000000 00000000 00000000 00000001 00000000 00000001 00000000 00000002 00000004" +
			"00000000 00000003 00000001 00000001"},
	{"write delegation", &OpenDelegation{Type: DelegateWrite, Stateid: Stateid{Seqid: 2}, Recall: true,
		SpaceLimit: SpaceLimit{LimitBy: LimitSize, FileSize: 9}, Permissions: ACE{0, 0, 3, []byte("me@x")}},
		"00000002 00000002 00000000 00000000 00000000 00000001 00000001 00000000 00000009" +
			"00000000 00000000 00000003 00000004 6d654078"},
	{"SETATTR args", &SetattrArgs{Stateid{}, Attrs{Mask: BitmapOf(AttrSize, AttrTimeModifySet, AttrTimeAccessSet), Size: 3,
		TimeAccessSet: SetTime{How: AttrSetToServerTime}, TimeModifySet: SetTime{AttrSetToClientTime, Time{-1, 5}}}},
		"00000000 00000000 00000000 00000000 00000002 00000010 00410000 0000001c" +
			"00000000 00000003 00000000 00000001 ffffffff ffffffff 00000005"},
	{"READDIR res", &ReaddirRes{CookieVerf: Verifier{7: 1}, Entries: []DirEntry{
		{3, []byte("a"), Attrs{Mask: BitmapOf(AttrRdattrError), RdattrError: ErrMoved}}, {4, []byte("bc"), Attrs{}}}, EOF: true},
		"00000000 00000001 00000001 00000000 00000003 00000001 61000000 00000001 00000800 00000004 00002723" +
			"00000001 00000000 00000004 00000002 62630000 00000000 00000000 00000000 00000001"},
	{"CREATE args", &CreateArgs{CreateType{Type: TypeLnk, LinkData: []byte("to")}, []byte("l"), Attrs{}},
		"00000005 00000002 746f0000 00000001 6c000000 00000000 00000000"},
	{"LOCK args", &LockArgs{LockWriteW, false, 0, LengthToEnd,
		Locker{NewLockOwner: true, OpenSeqid: 1, OpenStateid: Stateid{Seqid: 2}, LockSeqid: 3, Owner: LockOwner{4, []byte("p")}}},
		"00000004 00000000 00000000 00000000 ffffffff ffffffff 00000001 00000001" +
			"00000002 00000000 00000000 00000000 00000003 00000000 00000004 00000001 70000000"},
	{"LOCK args, old owner", &LockArgs{LockRead, true, 1, 2, Locker{LockStateid: Stateid{Seqid: 2}, LockSeqid: 3}},
		"00000001 00000001 00000000 00000001 00000000 00000002 00000000 00000002 00000000 00000000 00000000 00000003"},
	{"CREATE_SESSION args", &CreateSessionArgs{1, 2, CreateSessionFlagConnBackChan,
		ChannelAttrs{0, 100, 200, 300, 8, 64, nil}, ChannelAttrs{0, 4096, 4096, 0, 2, 16, []uint32{5}}, 0x40000000,
		[]CallbackSecParms{{Flavor: SecFlavorSys, Sys: AuthSysParms{9, []byte("h"), 1, 2, []uint32{3}}}}},
		"00000000 00000001 00000002 00000002" +
			"00000000 00000064 000000c8 0000012c 00000008 00000040 00000000" +
			"00000000 00001000 00001000 00000000 00000002 00000010 00000001 00000005" +
			"40000000 00000001 00000001 00000009 00000001 68000000 00000001 00000002 00000001 00000003"},
	{"EXCHANGE_ID res", &ExchangeIDRes{1, 2, ExchgidFlagUsePNFSMDS, StateProtectRes{}, ServerOwner{3, []byte("mj")}, []byte("s"), nil},
		"00000000 00000001 00000002 00020000 00000000 00000000 00000003 00000002 6d6a0000 00000001 73000000 00000000"},
	{"LAYOUTGET args", &LayoutGetArgs{false, LayoutFiles, IOModeRW, 0, LengthToEnd, 4096, StateidCurrent(), 4096},
		"00000000 00000001 00000002 00000000 00000000 ffffffff ffffffff 00000000 00001000" +
			"00000001 00000000 00000000 00000000 00001000"},
	{"LAYOUTGET res", &LayoutGetRes{true, Stateid{Seqid: 1}, []Layout{{0, LengthToEnd, IOModeRW, LayoutFiles, []byte("body")}}, false},
		"00000001 00000001 00000000 00000000 00000000 00000001 00000000 00000000 ffffffff ffffffff" +
			"00000002 00000001 00000004 626f6479"},
	{"LAYOUTCOMMIT args", &LayoutCommitArgs{0, 10, false, Stateid{}, NewOffset{true, 9}, NewTime{}, LayoutUpdate{LayoutFiles, []byte{}}},
		"00000000 00000000 00000000 0000000a 00000000 00000000 00000000 00000000 00000000" +
			"00000001 00000000 00000009 00000000 00000001 00000000"},
	{"LAYOUTRETURN args", &LayoutReturnArgs{false, LayoutFiles, IOModeAny, LayoutReturn{LayoutReturnFile, LayoutReturnRange{0, LengthToEnd, Stateid{}, []byte{}}}},
		"00000000 00000001 00000003 00000001 00000000 00000000 ffffffff ffffffff" +
			"00000000 00000000 00000000 00000000 00000000"},
	{"LAYOUTRETURN res", &LayoutReturnRes{true, Stateid{Seqid: 5}}, "00000001 00000005 00000000 00000000 00000000"},
	{"CB_LAYOUTRECALL args", &CBLayoutRecallArgs{LayoutFiles, IOModeAny, true, LayoutRecall{Kind: LayoutReturnFile,
		FH: FH{1, 2}, Offset: 0, Length: LengthToEnd, Stateid: Stateid{Seqid: 6}}},
		"00000001 00000003 00000001 00000001 00000002 01020000 00000000 00000000 ffffffff ffffffff" +
			"00000006 00000000 00000000 00000000"},
	{"CB_SEQUENCE args", &CBSequenceArgs{SessionID{}, 1, 0, 0, false, nil},
		"00000000 00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000"},
	{"CB_OFFLOAD args", &CBOffloadArgs{FH{1}, Stateid{}, OffloadInfo{Status: ErrNoSpc, BytesCopied: 5}},
		"00000001 01000000 00000000 00000000 00000000 00000000 0000001c 00000000 00000005"},
	{"READ_PLUS res", &ReadPlusRes{false, []ReadPlusContent{{Content: ContentHole, Offset: 1, Length: 2}, {Content: ContentData, Offset: 3, Data: []byte("d")}}},
		"00000000 00000002 00000001 00000000 00000001 00000000 00000002 00000000 00000000 00000003 00000001 64000000"},
	{"COPY res", &CopyRes{WriteResponse{nil, 8, FileSync, Verifier{}}, CopyRequirements{true, true}},
		"00000000 00000000 00000008 00000002 00000000 00000000 00000001 00000001"},
	{"LISTXATTRS res", &ListXattrsRes{1, [][]byte{[]byte("ab")}, true}, "00000000 00000001 00000001 00000002 61620000 00000001"},
	{"COMPOUND args", &CompoundArgs{[]byte{}, 2, 3}, "00000000 00000002 00000003"},
	{"COMPOUND res", &CompoundRes{ErrSeqMisordered, []byte("t"), 1}, "0000274f 00000001 74000000 00000001"},
	{"CB_COMPOUND args", &CBCompoundArgs{[]byte{}, 1, 0, 2}, "00000000 00000001 00000000 00000002"},
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		want, err := hex.DecodeString(strings.ReplaceAll(g.hex, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		if got := encode(g.value); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", g.name, got, want)
		}
		back := reflect.New(reflect.TypeOf(g.value).Elem()).Interface().(codec)
		if left, err := decode(back, want); left != 0 || err != nil || !reflect.DeepEqual(back, g.value) {
			t.Errorf("%s: decoded %+v, %d left, error %v", g.name, back, left, err)
		}
	}
}
