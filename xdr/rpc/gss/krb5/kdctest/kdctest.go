// Package kdctest runs a real Kerberos KDC for tests: MIT's, as an ordinary
// process with folders and a port of its own.
//
// Its nouns: a KDC is one realm; a keytab is a file with the keys of
// principals that it has made.
package kdctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Realm is the realm of every KDC.
const Realm = "MANIFOLD.TEST"

// KDC is a running KDC. It ends with its test.
type KDC struct {
	// Conf is the configuration file of clients and servers, for KRB5_CONFIG.
	Conf string

	dir string
	env []string
}

// programs are MIT's, of the Debian packages krb5-kdc and krb5-admin-server.
func programs() []string { return []string{"kdb5_util", "kadmin.local", "krb5kdc"} }

// enctypes are the encryption types of the realm, those first that every kernel
// knows.
func enctypes() []string {
	return []string{"aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha384-192", "aes128-cts-hmac-sha256-128"}
}

// find returns the path of a program, which may lie where only root looks.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}

// Start starts a KDC at addr ("127.0.0.1:0" takes a free port), and skips the
// test if there is none on this machine.
func Start(t testing.TB, addr string) *KDC {
	t.Helper()
	for _, p := range programs() {
		if _, err := find(p); err != nil {
			t.Skip("no KDC here (Debian packages krb5-kdc, krb5-admin-server): ", err)
		}
	}
	var err error
	for range 5 { // the port that was free may be another's when the KDC wants it
		var k *KDC
		if k, err = start(t, addr); err == nil {
			return k
		}
	}
	t.Fatal(err)
	return nil
}

func start(t testing.TB, addr string) (*KDC, error) {
	dir := t.TempDir()
	k := &KDC{dir: dir, Conf: filepath.Join(dir, "krb5.conf")}
	if strings.HasSuffix(addr, ":0") {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		addr = ln.Addr().String()
		ln.Close()
	}
	conf := fmt.Sprintf(`[libdefaults]
	default_realm = %[1]s
	dns_lookup_kdc = false
	dns_lookup_realm = false
	dns_canonicalize_hostname = false
	rdns = false
	udp_preference_limit = 1
	default_tkt_enctypes = %[4]s
	default_tgs_enctypes = %[4]s
	permitted_enctypes = %[4]s
[realms]
	%[1]s = {
		kdc = %[2]s
	}
[domain_realm]
	.test = %[1]s
[logging]
	kdc = FILE:%[3]s/kdc.log
`, Realm, addr, dir, strings.Join(enctypes(), " "))
	kdc := fmt.Sprintf(`[kdcdefaults]
	kdc_listen = %[2]s
	kdc_tcp_listen = %[2]s
[realms]
	%[1]s = {
		database_name = %[3]s/principal
		key_stash_file = %[3]s/stash
		supported_enctypes = %[4]s
	}
`, Realm, addr, dir, strings.Join(enctypes(), ":normal ")+":normal")
	err := errors.Join(os.WriteFile(k.Conf, []byte(conf), 0o644), os.WriteFile(filepath.Join(dir, "kdc.conf"), []byte(kdc), 0o644))
	if err != nil {
		return nil, err
	}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+filepath.Join(dir, "kdc.conf"))
	if err := k.run("", "kdb5_util", "create", "-s", "-r", Realm, "-P", "master"); err != nil {
		return nil, err
	}
	return k, k.serve(t, addr)
}

// serve runs the KDC until the test ends.
func (k *KDC) serve(t testing.TB, addr string) error {
	path, err := find("krb5kdc")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "-n", "-r", Realm)
	cmd.Env = k.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed, or out tells why
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-ended
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return fmt.Errorf("krb5kdc ended: %s", out.String())
		case <-ctx.Done():
			return fmt.Errorf("krb5kdc does not answer: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// run runs a program of the KDC's.
func (k *KDC) run(input, name string, args ...string) error {
	path, err := find(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdin = k.env, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// Keytab makes principals that do not exist yet, with keys of the encryption
// types given (the KDC's own, if none), and returns a keytab with them.
func (k *KDC) Keytab(t testing.TB, enctype string, principals ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp(k.dir, "keys") // kadmin wants to make the file itself
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "keytab")
	keys := ""
	if enctype != "" {
		keys = "-e " + enctype + ":normal "
	}
	var script strings.Builder
	for _, p := range principals {
		fmt.Fprintf(&script, "addprinc -randkey %s%s\nktadd -k %s -norandkey %s\n", keys, p, path, p)
	}
	if err := k.run(script.String(), "kadmin.local", "-r", Realm); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no keys of %v were written: %v", principals, err)
	}
	return path
}
