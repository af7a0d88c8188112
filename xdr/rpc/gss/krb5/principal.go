package krb5

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	krb "github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"manifold/xdr/rpc/gss"
)

// Principal is a client that has logged in.
type Principal struct{ c *client.Client }

// Login gets a ticket-granting ticket for name ("alice", "nfs/host") of the
// default realm of the configuration file conf, with its key in a keytab file.
func Login(conf, name, keytabPath string) (*Principal, error) {
	cfg, err := loadConfig(conf)
	if err != nil {
		return nil, err
	}
	keys, err := keytab.Load(keytabPath)
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", keytabPath, err)
	}
	c := client.NewWithKeytab(name, cfg.LibDefaults.DefaultRealm, keys, cfg, client.DisablePAFXFAST(true))
	if err := c.Login(); err != nil {
		return nil, err
	}
	return &Principal{c}, nil
}

// Close forgets the tickets.
func (p *Principal) Close() { p.c.Destroy() }

// ConfigFile is the configuration file of this machine.
func ConfigFile() string {
	if path := os.Getenv("KRB5_CONFIG"); path != "" {
		return path
	}
	return "/etc/krb5.conf"
}

// DefaultRealm reads the default realm from a configuration file.
func DefaultRealm(conf string) (string, error) {
	cfg, err := loadConfig(conf)
	if err != nil {
		return "", err
	}
	if cfg.LibDefaults.DefaultRealm == "" {
		return "", fmt.Errorf("%s names no default_realm", conf)
	}
	return cfg.LibDefaults.DefaultRealm, nil
}

// loadConfig reads a configuration file; directives that the library does not
// know are passed over.
func loadConfig(path string) (*config.Config, error) {
	cfg, err := config.Load(path)
	var unknown config.UnsupportedDirective
	if err != nil && !errors.As(err, &unknown) {
		return nil, err
	}
	return cfg, nil
}

// GSS-API flags in an authenticator's checksum (RFC 4121 section 4.1.1.1):
// mutual authentication, confidentiality, integrity.
const contextFlags = 2 | 16 | 32

// Initiate returns what makes contexts with the service of a host, for
// gss.NewClient.
func (p *Principal) Initiate(host string) gss.Initiate {
	return func(context.Context) ([]byte, func([]byte) (gss.Context, time.Time, error), error) {
		ticket, key, err := p.c.GetServiceTicket(Service + "/" + host)
		if err != nil {
			return nil, nil, err
		}
		auth, err := types.NewAuthenticator(p.c.Credentials.Domain(), p.c.Credentials.CName())
		if err != nil {
			return nil, nil, err
		}
		sum := make([]byte, 24)
		binary.LittleEndian.PutUint32(sum, 16)
		binary.LittleEndian.PutUint32(sum[20:], contextFlags)
		auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
		if auth.SubKey, err = newKey(key.KeyType); err != nil {
			return nil, nil, err
		}
		req, err := krb.NewAPReq(ticket, key, auth)
		if err != nil {
			return nil, nil, err
		}
		types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
		message, err := req.Marshal()
		if err != nil {
			return nil, nil, err
		}
		// The library does not say when the ticket ends; the server ends the
		// context with it, and we make another then.
		finish := func(reply []byte) (gss.Context, time.Time, error) {
			c, err := finish(reply, &auth, key)
			return c, time.Now().Add(time.Hour), err
		}
		return frame(tokenAPReq, message), finish, nil
	}
}

// finish makes the context of a server's AP-REP.
func finish(reply []byte, auth *types.Authenticator, key types.EncryptionKey) (gss.Context, error) {
	kind, message, err := unframe(reply)
	switch {
	case err != nil:
		return nil, err
	case kind != tokenAPRep:
		return nil, defective("token %#04x where an AP-REP must be", kind)
	}
	var rep krb.APRep
	if err := rep.Unmarshal(message); err != nil {
		return nil, defective("AP-REP: %v", err)
	}
	if len(rep.EncPart.Cipher) < 40 {
		return nil, defective("AP-REP: nothing in it")
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return nil, err
	}
	var part krb.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return nil, defective("AP-REP: %v", err)
	}
	if part.CTime.Unix() != auth.CTime.Unix() || part.Cusec != auth.Cusec {
		return nil, errors.New("krb5: the server answers another's question")
	}
	if len(part.Subkey.KeyValue) > 0 {
		return newMessages(part.Subkey, false, true, uint64(auth.SeqNumber))
	}
	return newMessages(auth.SubKey, false, false, uint64(auth.SeqNumber))
}
