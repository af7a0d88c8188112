package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"manifold/xdr/nfs4"
)

// Address is one network path to a data server. Netid is the transport by its
// RFC 5665 name: "tcp", "tcp6", "rdma", "rdma6".
type Address struct {
	Netid string
	netip.AddrPort
}

// TCP returns the path over TCP to ap, with the netid of its family. An IPv4
// address in IPv6 form becomes plain IPv4.
func TCP(ap netip.AddrPort) Address {
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	if ap.Addr().Is4() {
		return Address{"tcp", ap}
	}
	return Address{"tcp6", ap}
}

// ErrAddress means a netid or a universal address that is not one.
var ErrAddress = errors.New("layout: bad network address")

// maxUniversal bounds a universal address: an IPv6 address in its longest
// form, a zone and a port. Linux stops near 70.
const maxUniversal = 80

// Universal returns the address as RFC 5665 section 5.2.3 writes it: the host,
// then the port as two decimal bytes, "192.0.2.1.8.1" for port 2049.
func (a Address) Universal() string {
	port := a.Port()
	return fmt.Sprintf("%s.%d.%d", a.Addr(), port>>8, port&0xff)
}

// ParseAddress returns the address that the pair r_netid, r_addr of a netaddr4
// says, or ErrAddress. Host names are not addresses.
func ParseAddress(netid, universal string) (Address, error) {
	bad := fmt.Errorf("%w: %.8q %.80q", ErrAddress, netid, universal)
	if len(universal) > maxUniversal {
		return Address{}, bad
	}
	rest, low, ok1 := cutByte(universal)
	host, high, ok2 := cutByte(rest)
	addr, err := netip.ParseAddr(host)
	if !ok1 || !ok2 || err != nil {
		return Address{}, bad
	}
	switch netid {
	case "tcp", "rdma":
		ok1 = addr.Is4()
	case "tcp6", "rdma6":
		ok1 = addr.Is6()
	default:
		ok1 = false
	}
	if !ok1 {
		return Address{}, bad
	}
	return Address{netid, netip.AddrPortFrom(addr, uint16(high)<<8|uint16(low))}, nil
}

// cutByte splits s at its last dot and reads what follows as a decimal byte.
func cutByte(s string) (before string, v uint8, ok bool) {
	dot := strings.LastIndexByte(s, '.')
	if dot < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[dot+1:], 10, 8)
	return s[:dot], uint8(n), err == nil
}

// Device is an ordered list of data servers and the paths to each, best first.
// Paths[i] are those of DS[i], at least one.
type Device struct {
	ID    nfs4.DeviceID
	DS    []DSID
	Paths [][]Address
}

// NewDevice returns the device of these data servers at these addresses; its
// id is a hash of both. So the same list has the same id on every metadata
// server and after every restart, and an id never stands for other addresses,
// which Linux, that caches devices for ever, requires. It keeps its arguments.
func NewDevice(ds []DSID, paths [][]Address) Device {
	h := sha256.New()
	var b [4]byte
	put := func(v int) {
		binary.BigEndian.PutUint32(b[:], uint32(v))
		h.Write(b[:])
	}
	put(len(ds))
	for i, id := range ds {
		put(int(id))
		put(len(paths[i]))
		for _, a := range paths[i] {
			for _, s := range [2]string{a.Netid, a.Universal()} {
				put(len(s))
				h.Write([]byte(s))
			}
		}
	}
	d := Device{DS: ds, Paths: paths}
	copy(d.ID[:], h.Sum(nil))
	return d
}
