package mds

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"manifold/mds/op"
)

// ExportRule is one rule of the export: op.ExportRule.
type ExportRule = op.ExportRule

// Bounds on an export's rules: each COMPOUND goes through them.
const (
	maxRules   = 256
	maxClients = 1024 // addresses and networks of all of them
)

// ParseExport reads a rule as it is written:
//
//	clients=10.0.0.0/8,192.168.1.7,access=ro,squash=root,anon_uid=65534,anon_gid=65534,sec=sys:krb5
//
// Each part may be left out. clients: addresses and networks; nothing or * for
// every address. access: rw or ro; rw. squash: none, root or all; none. anon_uid
// and anon_gid: who those are that are squashed; 65534. sec: how users
// authenticate, of sys, krb5, krb5i and krb5p, best first; sys.
func ParseExport(text string) (ExportRule, error) {
	r := ExportRule{AnonUID: op.Nobody, AnonGID: op.Nobody}
	seen, key := map[string]bool{}, ""
	for _, part := range strings.Split(text, ",") {
		value := part
		if name, v, ok := strings.Cut(part, "="); ok {
			if key = strings.TrimSpace(name); seen[key] {
				return r, fmt.Errorf("%s is said twice", key)
			}
			seen[key], value = true, v
		} else if key != "clients" { // which is a list
			return r, fmt.Errorf("%q is not KEY=VALUE, with the keys clients, access, squash, anon_uid, anon_gid and sec", strings.TrimSpace(part))
		}
		if err := set(&r, key, strings.TrimSpace(value)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// set sets one part of a rule, or adds to its clients.
func set(r *ExportRule, key, value string) (err error) {
	switch key {
	case "clients":
		if value == "" || value == "*" {
			return nil
		}
		p, err := parseClient(value)
		r.Clients = append(r.Clients, p)
		return err
	case "access":
		switch value {
		case "rw", "ro":
			r.ReadOnly = value == "ro"
			return nil
		}
		return fmt.Errorf("access: %q is neither rw nor ro", value)
	case "squash":
		squash, ok := map[string]op.Squash{"none": op.SquashNone, "root": op.SquashRoot, "all": op.SquashAll}[value]
		if !ok {
			return fmt.Errorf("squash: %q is none of none, root and all", value)
		}
		r.Squash = squash
	case "anon_uid":
		r.AnonUID, err = parseID(key, value)
	case "anon_gid":
		r.AnonGID, err = parseID(key, value)
	case "sec":
		r.Sec, err = parseSec(value)
	default:
		return fmt.Errorf("unknown key %q; the keys are clients, access, squash, anon_uid, anon_gid and sec", key)
	}
	return err
}

// parseSec reads a list of security flavours.
func parseSec(value string) ([]op.Sec, error) {
	known := map[string]op.Sec{"sys": op.SecSys, "krb5": op.SecKrb5, "krb5i": op.SecKrb5i, "krb5p": op.SecKrb5p}
	var list []op.Sec
	for _, name := range strings.Split(value, ":") {
		sec, ok := known[strings.TrimSpace(name)]
		if !ok {
			return nil, fmt.Errorf("sec: %q is none of sys, krb5, krb5i and krb5p", name)
		}
		if slices.Contains(list, sec) {
			return nil, fmt.Errorf("sec: %s is said twice", name)
		}
		list = append(list, sec)
	}
	return list, nil
}

func parseID(key, value string) (uint32, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n == 1<<32-1 { // which stands for none in many systems
		return 0, fmt.Errorf("%s: %q is not a number from 0 to 4294967294", key, value)
	}
	return uint32(n), nil
}

// parseClient reads an address or a network.
func parseClient(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			return netip.Prefix{}, fmt.Errorf("clients: %q is neither an address nor a network such as 10.0.0.0/8; names are not looked up", text)
		case a.Zone() != "":
			return netip.Prefix{}, fmt.Errorf("clients: %q: leave the zone out: it counts at every interface", text)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("clients: %q is not a network such as 10.0.0.0/8 or fd00::/8", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("clients: %q: write the network as IPv4, such as 10.0.0.0/8", text)
	case p != p.Masked():
		return p, fmt.Errorf("clients: %q has bits after its first %d: the network is %v", text, p.Bits(), p.Masked())
	}
	return p, nil
}

// checkExports says what is wrong with the rules together. kerberos: there is a
// keytab.
func checkExports(rules []ExportRule, kerberos bool) error {
	if len(rules) > maxRules {
		return fmt.Errorf("exports: %d rules, more than %d", len(rules), maxRules)
	}
	clients := 0
	for i, r := range rules {
		clients += len(r.Clients)
		if !kerberos && slices.ContainsFunc(r.Sec, func(s op.Sec) bool { return s != op.SecSys }) {
			return fmt.Errorf("exports: rule %d: sec: Kerberos needs krb5-keytab", i+1)
		}
		if len(r.Clients) == 0 && i < len(rules)-1 {
			return fmt.Errorf("exports: rule %d is for every client, so that the %d after it never count: put it last", i+1, len(rules)-1-i)
		}
	}
	if clients > maxClients {
		return fmt.Errorf("exports: %d addresses and networks, more than %d", clients, maxClients)
	}
	return nil
}
