package nfs4

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// NetAddr is a netaddr4 (RFC 8881 section 3.3.9): a netid of RFC 5665 ("tcp",
// "tcp6", "rdma", "rdma6") and a universal address.
type NetAddr struct {
	NetID []byte `xdr:"max=MaxOpaque"`
	UAddr []byte `xdr:"max=MaxOpaque"`
}

// ErrUAddr means that a universal address is not one of RFC 5665 section 5.2.3.
var ErrUAddr = errors.New("nfs4: bad universal address")

// NetAddrOf returns the netaddr4 of ap for the transport "tcp" or "rdma"; the
// netid gets a 6 for an IPv6 address. An IPv4 address mapped into IPv6 counts
// as IPv4.
func NetAddrOf(transport string, ap netip.AddrPort) NetAddr {
	ip := ap.Addr().Unmap()
	if ip.Is6() {
		transport += "6"
	}
	u := fmt.Sprintf("%s.%d.%d", ip, ap.Port()>>8, ap.Port()&0xff)
	return NetAddr{NetID: []byte(transport), UAddr: []byte(u)}
}

// AddrPort returns the address of a universal address "h.h.h.h.p1.p2" or
// "v6.p1.p2" (RFC 5665 section 5.2.3.3); the error is ErrUAddr. It does not
// look at the netid.
func (a NetAddr) AddrPort() (netip.AddrPort, error) {
	s := string(a.UAddr)
	var port uint16
	for shift := 0; shift <= 8; shift += 8 {
		dot := strings.LastIndexByte(s, '.')
		if dot < 0 {
			return netip.AddrPort{}, fmt.Errorf("%w: %q", ErrUAddr, a.UAddr)
		}
		n, err := strconv.ParseUint(s[dot+1:], 10, 8)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("%w: %q", ErrUAddr, a.UAddr)
		}
		port |= uint16(n) << shift
		s = s[:dot]
	}
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %q", ErrUAddr, a.UAddr)
	}
	return netip.AddrPortFrom(ip, port), nil
}
