package mds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func valid(t *testing.T) Config {
	return Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Control: "127.0.0.1:0", Lease: 5 * time.Second}
}

func TestValidate(t *testing.T) {
	if err := valid(t).Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"data":        func(c *Config) { c.Data = "" },
		"listen":      func(c *Config) { c.Listen = "nowhere" },
		"control":     func(c *Config) { c.Control = "" },
		"lease":       func(c *Config) { c.Lease = time.Second },
		"grace":       func(c *Config) { c.Grace = -1 },
		"stripe unit": func(c *Config) { c.StripeUnit = 1000 },
		"width":       func(c *Config) { c.Width = maxWidth + 1 },
		"token":       func(c *Config) { c.Token = "short" },
		"limit":       func(c *Config) { c.MaxOpens = -1 },
		"reply cache": func(c *Config) { c.ReplyCache = 1000 },
		"delegations": func(c *Config) { c.MaxDelegations = -1 },
		"krb5 realm":  func(c *Config) { c.Krb5Realm = "R" },
		"contexts":    func(c *Config) { c.Krb5Contexts = -1 },
	} {
		c := valid(t)
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a bad %s: %v", want, err)
		}
	}
	var c Config
	if err := c.Validate(); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("everything that is wrong is said at once: %v", err)
	}
}

// TestToken: the token is made once, and readable by its owner only.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	first, err := loadToken(dir)
	if err != nil || len(first) < 16 {
		t.Fatalf("token %q, %v", first, err)
	}
	again, err := loadToken(dir)
	if err != nil || again != first {
		t.Errorf("token %q, then %q, %v", first, again, err)
	}
	if i, err := os.Stat(filepath.Join(dir, TokenFile)); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", i, err)
	}
}

// TestStarts: every start has another number, and the service stays the same.
func TestStarts(t *testing.T) {
	cfg := valid(t)
	var cluster [16]byte
	for i := range uint32(3) {
		s, err := New(cfg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			cluster = s.service.rec.ClusterID
		}
		if s.service.rec.Boots != i+1 || s.service.rec.ClusterID != cluster || cluster == [16]byte{} {
			t.Errorf("start %d: %+v", i, s.service.rec)
		}
		s.close()
	}
}

// TestGraceCoversLease: grace is as long as the lease that clients were told
// before the restart, and one that the administrator chose is what it is.
func TestGraceCoversLease(t *testing.T) {
	cfg := valid(t)
	for i, x := range []struct{ lease, grace, want time.Duration }{
		{60 * time.Second, 0, 66 * time.Second},
		{10 * time.Second, 0, 66 * time.Second},
		{10 * time.Second, 0, 11 * time.Second},
		{20 * time.Second, 0, 22 * time.Second},
		{10 * time.Second, 5 * time.Second, 5 * time.Second},
	} {
		cfg.Lease, cfg.Grace = x.lease, x.grace
		s, err := New(cfg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.stateConfig().Grace; got != x.want {
			t.Errorf("start %d: grace %v, want %v", i, got, x.want)
		}
		s.close()
	}
}

// TestNewFails gives everything back: the store and the addresses are free.
func TestNewFails(t *testing.T) {
	cfg := valid(t)
	s, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	second := cfg
	second.Listen = s.Addr().String()
	if _, err := New(second, Options{}); err == nil {
		t.Fatal("two servers on one store")
	}
	other := valid(t)
	other.Listen = s.Addr().String()
	if _, err := New(other, Options{}); err == nil {
		t.Fatal("two servers on one address")
	}
	s.close()
	other.Listen = "127.0.0.1:0"
	again, err := New(other, Options{})
	if err != nil {
		t.Fatalf("the folder of the one that failed is taken: %v", err)
	}
	again.close()
}
