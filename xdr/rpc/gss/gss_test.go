package gss

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/rpc"
)

var far = time.Now().Add(1000 * time.Hour)

// TestServices makes calls of every kind on one context.
func TestServices(t *testing.T) {
	a := NewAcceptor(Config{Mechanism: toy{far}})
	conn := pair(t, a)
	c := NewClient(initiate("alice", far))
	for _, service := range []rpc.Service{rpc.ServiceNone, rpc.ServiceIntegrity, rpc.ServicePrivacy} {
		for _, n := range []int{0, 4, 8, 4096, 1 << 20} {
			args := bytes.Repeat([]byte{3}, n)
			back, who, as, err := echoCall(t.Context(), conn, c.Cred(service), args)
			if err != nil || !bytes.Equal(back, args) || who != "alice" || as != service {
				t.Fatalf("service %d, %d bytes: %d back, %q, %d, %v", service, n, len(back), who, as, err)
			}
		}
		_, err := conn.Call(t.Context(), 100, 1, 2, c.Cred(service), nil)
		var rej rpc.Reject
		if !errors.As(err, &rej) || rej.Stat != rpc.ProcUnavail {
			t.Errorf("a refused call: %v", err)
		}
	}
	if a.Contexts() != 1 {
		t.Errorf("%d contexts", a.Contexts())
	}
	if err := c.Destroy(t.Context(), conn, 100, 1); err != nil || a.Contexts() != 0 {
		t.Errorf("destroy: %v, %d contexts", err, a.Contexts())
	}
	// The next call makes a new one.
	if _, who, _, err := echoCall(t.Context(), conn, c.Cred(rpc.ServiceNone), nil); err != nil || who != "alice" {
		t.Errorf("after destroy: %q, %v", who, err)
	}
}

// TestForgotten: a context that the server dropped is made anew behind the
// caller's back, and one that is over too.
func TestForgotten(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	a := NewAcceptor(Config{Mechanism: toy{far}, MaxAge: time.Hour, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	conn := pair(t, a)
	c := NewClient(initiate("alice", far))
	for range 3 {
		if _, _, _, err := echoCall(t.Context(), conn, c.Cred(rpc.ServicePrivacy), []byte("abcd")); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		now = now.Add(time.Hour)
		mu.Unlock()
	}
	// A client whose own context ends does not use it.
	made := 0
	short := NewClient(func(ctx context.Context) ([]byte, func([]byte) (Context, time.Time, error), error) {
		made++
		return initiate("bob", time.Now().Add(time.Second))(ctx)
	})
	for range 2 {
		if _, _, _, err := echoCall(t.Context(), conn, short.Cred(rpc.ServiceNone), nil); err != nil {
			t.Fatal(err)
		}
	}
	if made != 2 {
		t.Errorf("%d contexts made", made)
	}
}

func TestRefused(t *testing.T) {
	conn := pair(t, NewAcceptor(Config{Mechanism: toy{far}}))
	_, _, _, err := echoCall(t.Context(), conn, NewClient(initiate("", far)).Cred(rpc.ServiceNone), nil)
	if err == nil || err.Error() != "gss: no security context: the server refuses, major status 0x90000, minor 0" {
		t.Errorf("got %v", err)
	}
	// A ticket that is over when it comes makes a context that is over.
	over := pair(t, NewAcceptor(Config{Mechanism: toy{time.Now()}}))
	var rej rpc.Reject
	_, _, _, err = echoCall(t.Context(), over, NewClient(initiate("a", far)).Cred(rpc.ServiceNone), nil)
	if !errors.As(err, &rej) || rej.Stat != rpc.AuthGSSCredProblem {
		t.Errorf("a context that is over: %v", err)
	}
}

// TestConcurrent: many calls share a context, which is made once.
func TestConcurrent(t *testing.T) {
	a := NewAcceptor(Config{Mechanism: toy{far}})
	conn := pair(t, a)
	c := NewClient(initiate("alice", far))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			args := binary.BigEndian.AppendUint32(nil, uint32(i))
			back, _, _, err := echoCall(t.Context(), conn, c.Cred(rpc.Service(1+i%3)), args)
			if err != nil || !bytes.Equal(back, args) {
				t.Errorf("%d: %x, %v", i, back, err)
			}
		})
	}
	wg.Wait()
	if a.Contexts() != 1 {
		t.Errorf("%d contexts", a.Contexts())
	}
}

// TestWindow compares the window with a set.
func TestWindow(t *testing.T) {
	var w window
	seen := map[uint32]bool{}
	highest := uint32(0)
	state := uint32(1)
	for range 200000 {
		state = state*1664525 + 1013904223
		seq := highest + state>>20%64
		switch state >> 8 % 16 {
		case 0:
			seq = highest - min(highest, state>>12%(2*windowSize))
		case 1:
			seq = highest + state>>12%(2*windowSize)
		case 2:
			seq = highest - min(highest, windowSize-1)
		}
		want := !seen[seq] && (seq > highest || highest-seq < windowSize)
		if got := w.admit(seq); got != want {
			t.Fatalf("%d after %d: %v", seq, highest, got)
		}
		seen[seq] = true
		highest = max(highest, seq)
	}
}

// TestBounds: who floods the table loses his own contexts.
func TestBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	cs := newContexts(100)
	add := func(who string, until time.Time) handle {
		now = now.Add(time.Second)
		return cs.add(now, &established{principal: who, expires: until})
	}
	good := add("good", far)
	var flood []handle
	for range 1000 {
		flood = append(flood, add("flood", far))
	}
	if c, _ := cs.get(now, good[:]); c == nil || cs.len() != 100 {
		t.Errorf("%d contexts, the good one is %v", cs.len(), c)
	}
	if c, _ := cs.get(now, flood[999][:]); c == nil {
		t.Error("the newest is gone")
	}
	if c, _ := cs.get(now, flood[900][:]); c != nil {
		t.Error("an old one is there")
	}
	for i := range 60 { // those that are over go first
		cs.drop(flood[999-i])
		add("short", now.Add(time.Second+1))
	}
	now = now.Add(time.Minute)
	add("new", far)
	if cs.len() != 41 {
		t.Errorf("%d contexts", cs.len())
	}
	total := 0
	for who, n := range cs.of {
		if total += n; n <= 0 {
			t.Errorf("%s has %d", who, n)
		}
	}
	if total != cs.len() {
		t.Errorf("%d counted of %d", total, cs.len())
	}
	for _, name := range [][]byte{nil, good[:15], make([]byte, 16), make([]byte, 17)} {
		if c, _ := cs.get(now, name); c != nil {
			t.Errorf("%x is a context", name)
		}
	}
}

// message is a call as an Acceptor gets it.
func message(cred credential, header, verf, body []byte) *rpc.Secured {
	var e xdr.Encoder
	cred.encode(&e)
	return &rpc.Secured{Cred: e.Bytes(), Header: header, VerfFlavor: rpc.AuthGSS, Verf: verf, Body: body}
}

// TestAdmission: what is wrong with a call, as RFC 2203 section 5.3.3 names it.
func TestAdmission(t *testing.T) {
	a := NewAcceptor(Config{Mechanism: toy{far}})
	var init xdr.Encoder
	init.Opaque([]byte("alice"))
	adm := a.Accept(message(credential{proc: procInit, service: 1}, nil, nil, init.Bytes()))
	var res initRes
	d := xdr.NewDecoder(adm.Result)
	res.decode(&d)
	if d.Err() != nil || res.major != Complete || res.window != windowSize || !bytes.Equal(adm.Verf, sign("server", binary.BigEndian.AppendUint32(nil, windowSize))) {
		t.Fatalf("%+v, %+v", adm, res)
	}
	header := []byte("header")
	good := func(seq uint32) credential {
		return credential{proc: procData, seq: seq, service: rpc.ServiceNone, handle: res.handle}
	}
	mic := sign("client", header)
	if adm := a.Accept(message(good(7), header, mic, []byte("body"))); adm.Refused != 0 || adm.Drop || string(adm.Body) != "body" || adm.Cred.Principal != "alice" {
		t.Errorf("good: %+v", adm)
	}
	if adm := a.Accept(message(good(7), header, mic, nil)); !adm.Drop {
		t.Errorf("again: %+v", adm)
	}
	integ := good(8)
	integ.service = rpc.ServiceIntegrity
	lost := good(9)
	lost.handle = make([]byte, 16)
	wrongProc, cont := good(10), credential{proc: procContinue, service: 1, handle: res.handle}
	wrongProc.proc = procDestroy
	destroys := message(wrongProc, header, mic, nil)
	destroys.Proc = 1
	other := message(good(11), header, mic, nil)
	other.VerfFlavor = rpc.AuthSys
	for name, x := range map[string]struct {
		m    *rpc.Secured
		want rpc.Stat
	}{
		"no credential":        {&rpc.Secured{}, rpc.AuthBadCred},
		"service 0":            {message(credential{}, header, mic, nil), rpc.AuthBadCred},
		"service 4":            {message(credential{service: 4}, header, mic, nil), rpc.AuthBadCred},
		"procedure 4":          {message(credential{proc: 4, service: 1}, header, mic, nil), rpc.AuthBadCred},
		"destroy by a real":    {destroys, rpc.AuthBadCred},
		"continue":             {message(cont, nil, nil, nil), rpc.AuthGSSCredProblem},
		"no such context":      {message(lost, header, mic, nil), rpc.AuthGSSCredProblem},
		"flavour":              {other, rpc.AuthBadVerf},
		"verifier":             {message(good(12), []byte("other"), mic, nil), rpc.AuthGSSCredProblem},
		"over the last number": {message(good(maxSeq), header, mic, nil), rpc.AuthGSSCtxProblem},
		"body":                 {message(integ, header, mic, []byte("1234")), rpc.GarbageArgs},
		"no token":             {message(credential{proc: procInit, service: 1}, nil, nil, nil), rpc.GarbageArgs},
	} {
		if adm := a.Accept(x.m); adm.Refused != x.want || adm.Drop || adm.Done {
			t.Errorf("%s: %+v, want %v", name, adm, rpc.Reject{Stat: x.want})
		}
	}
	if a.Contexts() != 1 {
		t.Errorf("%d contexts", a.Contexts())
	}
}

// TestBodies changes every byte of a protected body.
func TestBodies(t *testing.T) {
	us, them := toyContext{"a", "b"}, toyContext{"b", "a"}
	for _, service := range []rpc.Service{rpc.ServiceIntegrity, rpc.ServicePrivacy} {
		e := xdr.NewEncoder(nil)
		e.Uint32(99)
		at := e.Len()
		e.Reserve(bodyHead)
		e.Raw([]byte("arguments..."))
		if err := seal(us, service, 5, &e, at); err != nil {
			t.Fatal(err)
		}
		body := e.Bytes()[at:]
		if len(body)%4 != 0 || len(body) > bodyHead+12+sealTail(us, service) {
			t.Errorf("%d bytes", len(body))
		}
		if got, err := open(them, service, 5, body); err != nil || string(got) != "arguments..." {
			t.Errorf("service %d: %q, %v", service, got, err)
		}
		if _, err := open(them, service, 6, body); err == nil {
			t.Error("another call's body is taken")
		}
		for i := range body {
			bad := bytes.Clone(body)
			bad[i] ^= 1
			if got, err := open(them, service, 5, bad); err == nil {
				t.Errorf("service %d with byte %d changed: %q", service, i, got)
			}
			if got, err := open(them, service, 5, body[:i]); err == nil {
				t.Errorf("service %d cut at %d: %q", service, i, got)
			}
		}
	}
}

// FuzzAccept: no call makes an Acceptor panic, or admits what was not signed.
func FuzzAccept(f *testing.F) {
	var init xdr.Encoder
	init.Opaque([]byte("alice"))
	for _, c := range []credential{{proc: procInit, service: 1}, {service: 2, seq: 3, handle: make([]byte, 16)}} {
		m := message(c, []byte("h"), sign("client", []byte("h")), init.Bytes())
		f.Add(m.Cred, m.Header, m.Verf, m.Body)
	}
	f.Fuzz(func(t *testing.T, cred, header, verf, body []byte) {
		a := NewAcceptor(Config{Mechanism: toy{far}, MaxContexts: 2})
		h := a.contexts.add(time.Now(), &established{Context: toyContext{"server", "client"}, principal: "p", expires: far})
		var c credential
		if c.decode(cred) && len(c.handle) == 16 {
			c.handle = h[:]
			var e xdr.Encoder
			c.encode(&e)
			cred = e.Bytes()
		}
		adm := a.Accept(&rpc.Secured{Cred: cred, Header: header, VerfFlavor: rpc.AuthGSS, Verf: verf, Body: body})
		if adm.Refused == 0 && !adm.Drop && !adm.Done && !bytes.Equal(verf, sign("client", header)) {
			t.Errorf("admitted: %+v", adm)
		}
		var res initRes
		d := xdr.NewDecoder(body)
		res.decode(&d)
		for _, s := range []rpc.Service{1, 2, 3} {
			_, _ = open(toyContext{"server", "client"}, s, 1, body)
		}
	})
}
