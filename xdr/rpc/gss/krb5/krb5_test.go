package krb5

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"manifold/xdr/rpc/gss"
	"manifold/xdr/rpc/gss/krb5/kdctest"
)

// ends makes both ends of a context with a real KDC.
func ends(t *testing.T, p *Principal, a *Mechanism) (client, server gss.Context, acc gss.Accepted) {
	t.Helper()
	token, finish, err := p.Initiate("server.test")(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	acc, err = a.Accept(time.Now(), token)
	if err != nil {
		t.Fatal(err)
	}
	client, _, err = finish(acc.Token)
	if err != nil {
		t.Fatal(err)
	}
	return client, acc.Context, acc
}

// TestContext makes contexts of every encryption type.
func TestContext(t *testing.T) {
	kdc := kdctest.Start(t, "127.0.0.1:0")
	for _, enctype := range []string{
		"aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha256-128", "aes256-cts-hmac-sha384-192",
	} {
		t.Run(enctype, func(t *testing.T) {
			suffix := "-" + enctype[3:6] + enctype[len(enctype)-3:]
			keys := kdc.Keytab(t, enctype, "alice"+suffix)
			host := kdc.Keytab(t, enctype, "nfs/server"+suffix+".test")
			a, err := NewMechanism(host)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Login(kdc.Conf, "alice"+suffix, keys)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			token, finish, err := p.Initiate("server" + suffix + ".test")(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			acc, err := a.Accept(time.Now(), token)
			if err != nil {
				t.Fatal(err)
			}
			if want := "alice" + suffix + "@" + kdctest.Realm; acc.Principal != want || time.Until(acc.Expires) < time.Hour {
				t.Errorf("principal %q until %v", acc.Principal, acc.Expires)
			}
			c, _, err := finish(acc.Token)
			if err != nil {
				t.Fatal(err)
			}
			exchange(t, c, acc.Context)
			exchange(t, acc.Context, c)
			_, err = a.Accept(time.Now(), token)
			var refused *gss.Error
			if !errors.As(err, &refused) || refused.Major != gss.DuplicateToken {
				t.Errorf("the same token again: %v", err)
			}
		})
	}
}

// exchange sends messages of several lengths from one end to the other.
func exchange(t *testing.T, from, to gss.Context) {
	t.Helper()
	for _, n := range []int{0, 1, 15, 16, 17, 4096, 1 << 20} {
		msg := bytes.Repeat([]byte{7}, n)
		mic, err := from.MIC(msg)
		if err != nil || len(mic) != from.MICSize() {
			t.Fatalf("MIC of %d bytes: %d, %v", n, len(mic), err)
		}
		if err := to.Verify(msg, mic); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if from.Verify(msg, mic) == nil {
			t.Error("a MIC goes back to who made it")
		}
		token, err := from.Wrap(msg)
		if err != nil || len(token) > n+from.WrapSize() {
			t.Fatalf("%d bytes wrapped in %d, %v", n, len(token), err)
		}
		got, err := to.Unwrap(token)
		if err != nil || !bytes.Equal(got, msg) {
			t.Errorf("%d bytes unwrapped: %d, %v", n, len(got), err)
		}
		if n > 4096 {
			continue
		}
		for i := range mic { // every byte counts
			mic[i] ^= 1
			if to.Verify(msg, mic) == nil {
				t.Fatalf("a MIC with byte %d changed", i)
			}
			mic[i] ^= 1
		}
		for i := range token[:min(len(token), 200)] {
			token[i] ^= 1
			if got, err := to.Unwrap(token); err == nil {
				t.Fatalf("a token with byte %d changed: %d bytes", i, len(got))
			}
			token[i] ^= 1
		}
		for _, r := range []int{1, 16, 28, 1000} { // as others rotate
			rotated := rotate(token, r)
			if got, err := to.Unwrap(rotated); err != nil || !bytes.Equal(got, msg) {
				t.Errorf("%d bytes rotated by %d: %v", n, r, err)
			}
		}
	}
}

// rotate rotates a token to the right as RFC 4121 section 4.2.5 does.
func rotate(token []byte, n int) []byte {
	r := bytes.Clone(token)
	r[6], r[7] = byte(n>>8), byte(n)
	body := token[headerSize:]
	k := len(body) - n%len(body)
	copy(r[headerSize:], body[k:])
	copy(r[headerSize+len(body)-k:], body[:k])
	return r
}

func TestRefusals(t *testing.T) {
	kdc := kdctest.Start(t, "127.0.0.1:0")
	user := kdc.Keytab(t, "", "alice")
	host := kdc.Keytab(t, "", "nfs/server.test")
	if _, err := NewMechanism(user); err == nil {
		t.Error("a keytab without a service's key is taken")
	}
	a, err := NewMechanism(host)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Login(kdc.Conf, "alice", user)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ends(t, p, a)
	token, _, err := p.Initiate("server.test")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range token { // every byte counts, and none is a panic
		bad := bytes.Clone(token)
		bad[n] ^= 0x41
		if _, err := a.Accept(time.Now(), bad); err == nil && !harmless(bad, token) {
			t.Errorf("a token with byte %d changed is taken", n)
		}
		if _, err := a.Accept(time.Now(), token[:n]); err == nil {
			t.Errorf("a token cut at %d is taken", n)
		}
	}
	// A key of another service, or of another time, opens nothing.
	other := kdc.Keytab(t, "", "nfs/other.test")
	b, err := NewMechanism(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Accept(time.Now(), token); err == nil {
		t.Error("another server takes the token")
	}
	// The keytab is replaced, as when keys are changed; what is no keytab changes
	// nothing.
	keys, err := os.ReadFile(host)
	if err != nil {
		t.Fatal(err)
	}
	for i, content := range [][]byte{keys, []byte("no keytab")} {
		if err := os.WriteFile(other, content, 0o600); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Duration(i+1) * time.Minute) // a file's time may be coarse
		if err := os.Chtimes(other, later, later); err != nil {
			t.Fatal(err)
		}
		ends(t, p, b)
	}
}

// harmless says whether two tokens differ in what nothing depends on: the
// options and the kvno, which are not authenticated, and lead to the same key.
func harmless(a, b []byte) bool {
	x, err := parse(a)
	if err != nil {
		return false
	}
	y, err := parse(b)
	return err == nil && bytes.Equal(x.Ticket.EncPart.Cipher, y.Ticket.EncPart.Cipher) &&
		bytes.Equal(x.EncryptedAuthenticator.Cipher, y.EncryptedAuthenticator.Cipher)
}
