package compound

import (
	"strings"
	"testing"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// sizes asks for a session whose replies and cached replies are limited.
func sizes(response, cached uint32) func(*nfs4.CreateSessionArgs) {
	return func(a *nfs4.CreateSessionArgs) {
		a.ForeChanAttrs.MaxResponseSize, a.ForeChanAttrs.MaxResponseSizeCached = response, cached
	}
}

// frame is what a reply takes before its results: RPC header, status, the tag
// "tag" and the count.
const frame = 24 + 4 + 8 + 4

// TestReplyTooBig: a reply fits to the byte, or the operation that would pass
// the limit fails and all before it stand (RFC 8881 section 2.10.6.4).
func TestReplyTooBig(t *testing.T) {
	// SEQUENCE, five PUTFH ("fh" below) and the operation's own header.
	const before = frame + opHeader + sequenceBody + 5*opHeader + opHeader
	for _, tc := range []struct {
		name             string
		response, cached uint32
		words, want      string
		writes           int // that ran
	}{
		{"read fits", before + 4 + 100, 0, "seq fh read:100", "OK SEQUENCE=OK FH READ=OK", 0},
		{"read does not", before + 4 + 99, 0, "seq fh read:100", "REP_TOO_BIG SEQUENCE=OK FH READ=REP_TOO_BIG", 0},
		{"read takes what there is", before + 4 + 100, 0, "seq fh read:0x200000", "OK SEQUENCE=OK FH READ=OK", 0},
		{"and leaves a place for the next", before + 4 + 100, 0, "seq fh read:0x200000 getattr",
			"REP_TOO_BIG SEQUENCE=OK FH READ=OK GETATTR=REP_TOO_BIG", 0},
		{"which it may not take", before + 4 + 100, 0, "seq fh read:100 getattr", "REP_TOO_BIG SEQUENCE=OK FH READ=REP_TOO_BIG", 0},
		{"which is enough for SETATTR", before + 4 + 100, 0, "seq fh read:0x200000 setattr",
			"REP_TOO_BIG SEQUENCE=OK FH READ=OK SETATTR=REP_TOO_BIG", 0},
		{"empty results end, too", before + 4, 0, "seq fh link",
			"NOFILEHANDLE SEQUENCE=OK FH LINK=NOFILEHANDLE", 0},
		{"with one less than another needs", before + 3, 0, "seq fh putfh:b",
			"REP_TOO_BIG SEQUENCE=OK PUTFH=OK PUTFH=OK PUTFH=OK PUTFH=OK PUTFH=REP_TOO_BIG", 0},
		{"write runs within its bound", before + writeBody, 0, "seq fh write:4", "OK SEQUENCE=OK FH WRITE=OK", 1},
		{"and not without", before + writeBody - 1, 0, "seq fh write:4", "REP_TOO_BIG SEQUENCE=OK FH WRITE=REP_TOO_BIG", 0},
		{"nor without the next one's place", before + writeBody + errorRoom - 1, 0, "seq fh write:4 getfh",
			"REP_TOO_BIG SEQUENCE=OK FH WRITE=REP_TOO_BIG", 0},
		{"that is over its bound is our fault", before + writeBody, 0, "seq fh write:16", "REP_TOO_BIG SEQUENCE=OK FH WRITE=REP_TOO_BIG", 1},

		{"cached read fits", 5000, before + 4 + 100, "cseq fh read:100", "OK SEQUENCE=OK FH READ=OK", 0},
		{"cached read does not", 5000, before + 4 + 99, "cseq fh read:100",
			"REP_TOO_BIG_TO_CACHE SEQUENCE=OK FH READ=REP_TOO_BIG_TO_CACHE", 0},
		{"but does when it is not cached", 5000, before + 4 + 99, "seq fh read:100", "OK SEQUENCE=OK FH READ=OK", 0},
		{"cached write does not run", 5000, before + writeBody - 1, "cseq fh write:4",
			"REP_TOO_BIG_TO_CACHE SEQUENCE=OK FH WRITE=REP_TOO_BIG_TO_CACHE", 0},
		{"cached beyond the reply's own limit", before + 4 + 99, before + 4 + 99, "cseq fh read:100",
			"REP_TOO_BIG SEQUENCE=OK FH READ=REP_TOO_BIG", 0},
		{"nothing can be cached", 5000, 0, "cseq putfh:a", "REP_TOO_BIG_TO_CACHE SEQUENCE=REP_TOO_BIG_TO_CACHE", 0},
		{"not even a lone SEQUENCE", 5000, frame + opHeader + sequenceBody - 1, "cseq", "REP_TOO_BIG_TO_CACHE SEQUENCE=REP_TOO_BIG_TO_CACHE", 0},
		{"only a lone SEQUENCE", 5000, frame + opHeader + sequenceBody, "cseq", "OK SEQUENCE=OK", 0},
		{"SEQUENCE without the next one's place", 5000, frame + opHeader + sequenceBody + errorRoom - 1, "cseq putfh:a",
			"REP_TOO_BIG_TO_CACHE SEQUENCE=REP_TOO_BIG_TO_CACHE", 0},
	} {
		run(t, tc.name, session.Config{}, func(t *testing.T, e *env) {
			e.login(sizes(tc.response, tc.cached))
			words := strings.ReplaceAll(tc.words, "fh ", strings.Repeat("putfh:a ", 5))
			want := strings.ReplaceAll(tc.want, "FH ", strings.Repeat("PUTFH=OK ", 5))
			r := e.want(words, want)
			limit := tc.response
			if strings.HasPrefix(tc.words, "cseq") && tc.cached >= frame+opHeader+sequenceBody+errorRoom {
				limit = min(limit, tc.cached)
			}
			if size := 24 + r.size; size > int(limit) {
				t.Errorf("a reply of %d bytes where %d may be", size, limit)
			}
			if n := e.role.runs("WRITE"); n != tc.writes {
				t.Errorf("WRITE ran %d times", n)
			}
			if r.results[0].status != nfs4.OK {
				e.sess.slots[0]--
			} else if strings.HasPrefix(tc.words, "cseq") {
				e.want("re"+words, want) // the failure is in the cache, too
			}
			e.want("seq", "OK SEQUENCE=OK")
			logged := e.logs.FilterMessage("result is longer than its bound").Len()
			if bad := strings.Contains(tc.name, "our fault"); bad != (logged == 1) {
				t.Errorf("%d lines logged", logged)
			}
		})
	}
}

// TestLongTag: a tag takes a part of the reply.
func TestLongTag(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(sizes(200, 200))
		for n, want := range map[int]nfs4.Status{100: nfs4.OK, 120: nfs4.OK, 121: nfs4.ErrRepTooBig, 900: nfs4.ErrRepTooBig} {
			p := e.dial()
			p.sess = e.sess
			enc := encoderOf(1, strings.Repeat("t", n), p.parse("seq")).Bytes()
			r, err := p.raw(enc)
			if err != nil || r.status != want {
				t.Errorf("tag of %d bytes: %v, %v", n, r, err)
			}
			if want != nfs4.OK {
				e.sess.slots[0]--
			}
		}
	})
}

// TestRequestTooBig counts the request as the RPC layer got it.
func TestRequestTooBig(t *testing.T) {
	// The call's header with this AUTH_SYS credential, and COMPOUND with
	// SEQUENCE and PUTFH of n bytes.
	const header = 40 + 5*4
	const body = 4 + 4 + 4 + 4 + (4 + 32) + (4 + 4)
	for _, tc := range []struct {
		fh   int
		want string
	}{
		{100, "OK SEQUENCE=OK PUTFH=OK"},
		{101, "REQ_TOO_BIG SEQUENCE=REQ_TOO_BIG"},
	} {
		run(t, tc.want, session.Config{}, func(t *testing.T, e *env) {
			e.login(func(a *nfs4.CreateSessionArgs) { a.ForeChanAttrs.MaxRequestSize = header + body + 100 })
			e.want("seq putfh:"+strings.Repeat("f", tc.fh), tc.want)
		})
	}
}
