package krb5

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	krb "github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"manifold/xdr/rpc/gss"
)

const (
	// skew is how far clients' clocks may be from ours.
	skew = 5 * time.Minute
	// maxPrincipal bounds the length of a principal's name.
	maxPrincipal = 512
	// maxSeen bounds the authenticators that are remembered against replay, each
	// 32 bytes. Who replays one gets a context whose key he does not have.
	maxSeen = 1 << 16
)

// Mechanism is a gss.Mechanism that accepts.
type Mechanism struct {
	path string

	mu       sync.Mutex
	keys     *keytab.Keytab
	modified time.Time // of the keytab that keys are of
	seen     [2]map[[32]byte]struct{}
	turned   time.Time // when seen[0] began
}

// NewMechanism returns the mechanism with the keys of a keytab file, which must
// have one of Service. The file is read again when it changes.
func NewMechanism(path string) (*Mechanism, error) {
	a := &Mechanism{path: path}
	a.seen[0] = map[[32]byte]struct{}{}
	keys, err := a.load()
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", path, err)
	}
	for _, e := range keys.Entries {
		if len(e.Principal.Components) > 0 && e.Principal.Components[0] == Service && keySize(e.Key.KeyType) != 0 {
			return a, nil
		}
	}
	return nil, fmt.Errorf("keytab %s: no AES key of %s/HOST", path, Service)
}

// NewAcceptor returns an acceptor of calls with the keys of a keytab file, as
// NewMechanism takes it, and what else cfg says.
func NewAcceptor(keytab string, cfg gss.Config) (*gss.Acceptor, error) {
	m, err := NewMechanism(keytab)
	if err != nil {
		return nil, err
	}
	cfg.Mechanism = m
	return gss.NewAcceptor(cfg), nil
}

// load returns the keys of the keytab as it is now.
func (a *Mechanism) load() (*keytab.Keytab, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	st, err := os.Stat(a.path)
	if err == nil && (a.keys == nil || !st.ModTime().Equal(a.modified)) {
		var keys *keytab.Keytab
		if keys, err = keytab.Load(a.path); err == nil {
			a.keys, a.modified = keys, st.ModTime()
		}
	}
	if a.keys != nil {
		return a.keys, nil // what is being replaced at the moment counts still
	}
	return nil, err
}

// Accept implements gss.Mechanism: it verifies an AP-REQ (RFC 4120 section
// 3.2.3) and, if the client wants to know the server too, answers an AP-REP.
func (a *Mechanism) Accept(now time.Time, token []byte) (acc gss.Accepted, err error) {
	// The library's decoders are for messages that nobody has authenticated yet.
	defer func() {
		if p := recover(); p != nil {
			acc, err = gss.Accepted{}, defective("AP-REQ: %v", p)
		}
	}()
	req, err := parse(token)
	if err != nil {
		return acc, err
	}
	if err := a.verify(req); err != nil {
		return acc, err
	}
	if !a.fresh(now, req.EncryptedAuthenticator.Cipher) {
		return acc, &gss.Error{Major: gss.DuplicateToken, Err: errors.New("an AP-REQ was shown twice")}
	}
	return accept(req)
}

// parse reads a token that must be an AP-REQ.
func parse(token []byte) (*krb.APReq, error) {
	kind, message, err := unframe(token)
	switch {
	case err != nil:
		return nil, err
	case kind != tokenAPReq:
		return nil, defective("token %#04x where an AP-REQ must be", kind)
	}
	var req krb.APReq
	if err := req.Unmarshal(message); err != nil {
		return nil, defective("AP-REQ: %v", err)
	}
	return &req, nil
}

// verify checks the ticket and the authenticator.
func (a *Mechanism) verify(req *krb.APReq) error {
	names := req.Ticket.SName.NameString
	if len(names) != 2 || names[0] != Service {
		return &gss.Error{Major: gss.NoCred, Err: fmt.Errorf("a ticket for %q, not for %s/HOST", strings.Join(names, "/"), Service)}
	}
	if keySize(req.Ticket.EncPart.EType) == 0 {
		return &gss.Error{Major: gss.NoCred, Err: fmt.Errorf("a ticket of encryption type %d, which is not AES", req.Ticket.EncPart.EType)}
	}
	const shortest = 16 + 24 // confounder and the longest checksum
	if len(req.Ticket.EncPart.Cipher) < shortest || len(req.EncryptedAuthenticator.Cipher) < shortest {
		return defective("AP-REQ: nothing in it")
	}
	keys, err := a.load()
	if err != nil {
		return &gss.Error{Major: gss.NoCred, Err: err}
	}
	ok, err := req.Verify(keys, skew, types.HostAddress{}, nil)
	if err == nil && !ok {
		err = errors.New("the ticket is not valid")
	}
	if err != nil {
		return &gss.Error{Major: gss.Failure, Err: err}
	}
	if sum := req.Authenticator.Cksum; sum.CksumType != chksumtype.GSSAPI || len(sum.Checksum) < 24 {
		return defective("AP-REQ: no GSS-API checksum") // RFC 4121 section 4.1.1
	}
	return nil
}

// fresh says whether an authenticator was not shown before, and notes it.
func (a *Mechanism) fresh(now time.Time, authenticator []byte) bool {
	sum := sha256.Sum256(authenticator)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.turned) > 2*skew || len(a.seen[0]) >= maxSeen/2 {
		a.seen[1], a.seen[0], a.turned = a.seen[0], map[[32]byte]struct{}{}, now
	}
	for _, s := range a.seen {
		if _, ok := s[sum]; ok {
			return false
		}
	}
	a.seen[0][sum] = struct{}{}
	return true
}

// accept makes the context of a verified AP-REQ.
func accept(req *krb.APReq) (acc gss.Accepted, err error) {
	ticket, auth := &req.Ticket.DecryptedEncPart, &req.Authenticator
	if acc.Principal, err = principal(ticket.CName, ticket.CRealm); err != nil {
		return acc, err
	}
	acc.Expires = ticket.EndTime
	key := ticket.Key
	if len(auth.SubKey.KeyValue) > 0 {
		key = auth.SubKey
	}
	seq, subkey := uint64(0), false
	// The client asks to know us by a flag in the checksum, and by an option.
	const mutual = 2
	if binary.LittleEndian.Uint32(auth.Cksum.Checksum[20:])&mutual != 0 {
		var r [4]byte
		rand.Read(r[:])
		seq, subkey = uint64(binary.BigEndian.Uint32(r[:])>>2|1), true
		if key, err = newKey(key.KeyType); err != nil {
			return acc, err
		}
		if acc.Token, err = apRep(req, key, int64(seq)); err != nil {
			return acc, err
		}
	}
	acc.Context, err = newMessages(key, true, subkey, seq)
	return acc, err
}

// newKey returns a random key.
func newKey(t int32) (types.EncryptionKey, error) {
	n := keySize(t)
	if n == 0 {
		return types.EncryptionKey{}, fmt.Errorf("krb5: encryption type %d is not taken", t)
	}
	key := types.EncryptionKey{KeyType: t, KeyValue: make([]byte, n)}
	rand.Read(key.KeyValue)
	return key, nil
}

// apRep makes the token by which the client knows us (RFC 4120 section 5.5.2).
func apRep(req *krb.APReq, subkey types.EncryptionKey, seq int64) ([]byte, error) {
	part, err := asn1.Marshal(krb.EncAPRepPart{
		CTime: req.Authenticator.CTime.UTC(), Cusec: req.Authenticator.Cusec, Subkey: subkey, SequenceNumber: seq,
	})
	if err != nil {
		return nil, err
	}
	part = asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart)
	sealed, err := crypto.GetEncryptedData(part, req.Ticket.DecryptedEncPart.Key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	rep, err := asn1.Marshal(krb.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		return nil, err
	}
	return frame(tokenAPRep, asn1tools.AddASNAppTag(rep, asnAppTag.APREP)), nil
}

// principal writes a client's name: its parts and its realm. A name with a sign
// that could make another's name of it is refused.
func principal(name types.PrincipalName, realm string) (string, error) {
	parts := append([]string{realm}, name.NameString...)
	for _, p := range parts {
		if p == "" || strings.ContainsAny(p, "/@\\\x00\n") {
			return "", &gss.Error{Major: gss.Failure, Err: fmt.Errorf("a client name that is not taken: %q", parts)}
		}
	}
	s := strings.Join(name.NameString, "/") + "@" + realm
	if len(name.NameString) == 0 || len(s) > maxPrincipal {
		return "", &gss.Error{Major: gss.Failure, Err: fmt.Errorf("a client name of %d bytes", len(s))}
	}
	return s, nil
}
