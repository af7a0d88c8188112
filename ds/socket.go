package ds

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// socket is a TCP socket that has its address and does not listen yet. While it
// does not, a client's connect is refused at once and its I/O goes through the
// metadata server; if we listened and did not answer, it would wait.
type socket struct {
	file *os.File
	addr netip.AddrPort
}

// bind returns a socket bound to HOST:PORT; port 0 becomes a free one. A name
// means its first address.
func bind(ctx context.Context, hostPort string) (*socket, error) {
	aps, err := resolve(ctx, hostPort)
	if err != nil {
		return nil, fmt.Errorf("ds: listen address %s: %w", hostPort, err)
	}
	want := aps[0]
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(want.Port()), Addr: want.Addr().As16()})
	if want.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(want.Port()), Addr: want.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return nil, fmt.Errorf("ds: socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "tcp "+hostPort)}
	if err := s.bindTo(fd, family, sa); err != nil {
		_ = s.file.Close()
		return nil, fmt.Errorf("ds: cannot bind to %s: %w", hostPort, err)
	}
	return s, nil
}

func (s *socket) bindTo(fd, family int, sa unix.Sockaddr) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if family == unix.AF_INET6 { // the wildcard serves IPv4 as well
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return err
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	switch a := got.(type) {
	case *unix.SockaddrInet4:
		s.addr = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		s.addr = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return nil
}

// listen returns the listener that the socket becomes. The socket is used up.
func (s *socket) listen() (net.Listener, error) {
	defer func() { _ = s.file.Close() }() // FileListener has a descriptor of its own
	raw, err := s.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var sysErr error
	if err := raw.Control(func(fd uintptr) { sysErr = unix.Listen(int(fd), unix.SOMAXCONN) }); err != nil {
		return nil, err
	}
	if sysErr != nil {
		return nil, fmt.Errorf("ds: cannot listen on %s: %w", s.addr, sysErr)
	}
	return net.FileListener(s.file)
}

// close gives the socket up. Twice, or after listen, it does nothing.
func (s *socket) close() { _ = s.file.Close() }
