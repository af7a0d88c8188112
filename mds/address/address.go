// Package address moves the address that clients mount from to the metadata
// server that leads.
//
// Its noun is a Floating address: an IP address on a device of this machine,
// which this machine has for as long as it is renewed. The kernel itself takes
// it away when it is not: so a metadata server that is stopped, or killed, does
// not leave it behind for longer than its lease.
package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Floating is a service address. The zero Floating does nothing.
type Floating struct {
	// Prefix is the address with the length of its network, and Device who has it,
	// such as 10.0.0.5/24 on eth0. Without them the kernel's addresses are left alone.
	Prefix netip.Prefix
	Device string
	// Hook is a program that is run with "take" or "drop" as its argument, and
	// MANIFOLD_ADDRESS in its environment; by itself, or after and before what the
	// kernel does. It has ten seconds.
	Hook string
}

// hookTime is how long a hook may take.
const hookTime = 10 * time.Second

// Parse reads ADDRESS/LENGTH@DEVICE.
func Parse(s string) (Floating, error) {
	prefix, device, ok := strings.Cut(s, "@")
	p, err := netip.ParsePrefix(prefix)
	if !ok || device == "" || err != nil {
		return Floating{}, fmt.Errorf("service address %q is not ADDRESS/LENGTH@DEVICE, as in 10.0.0.5/24@eth0", s)
	}
	if len(device) >= unix.IFNAMSIZ {
		return Floating{}, fmt.Errorf("service address %q: the device's name is too long", s)
	}
	return Floating{Prefix: p, Device: device}, nil
}

// String is what Parse reads.
func (f Floating) String() string {
	if !f.Prefix.IsValid() {
		return ""
	}
	return f.Prefix.String() + "@" + f.Device
}

// Check says whether this machine could have the address.
func (f Floating) Check() error {
	if !f.Prefix.IsValid() {
		return nil
	}
	if _, err := netlink.LinkByName(f.Device); err != nil {
		return fmt.Errorf("service address %s: %w", f, err)
	}
	return nil
}

// Take gives this machine the address for the time given, tells the neighbours,
// and runs the hook.
func (f Floating) Take(ctx context.Context, until time.Duration) error {
	if err := f.Renew(until); err != nil {
		return err
	}
	return errors.Join(f.Announce(), f.hook(ctx, "take"))
}

// Renew lets this machine keep the address for the time given, which the kernel
// counts in whole seconds: it is rounded up.
func (f Floating) Renew(until time.Duration) error {
	if !f.Prefix.IsValid() {
		return nil
	}
	link, err := netlink.LinkByName(f.Device)
	if err != nil {
		return fmt.Errorf("service address %s: %w", f, err)
	}
	a := f.addr()
	// The preferred time must not be longer than the valid one.
	a.ValidLft = max(1, int((until+time.Second-1)/time.Second))
	a.PreferedLft = a.ValidLft
	if err := netlink.AddrReplace(link, a); err != nil {
		return fmt.Errorf("service address %s: %w", f, err)
	}
	return nil
}

func (f Floating) addr() *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{
		IP: f.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(f.Prefix.Bits(), f.Prefix.Addr().BitLen()),
	}}
	if f.Prefix.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // who leads is decided already
	}
	return a
}

// Drop takes the address away from this machine; it is no error if it is not
// there.
func (f Floating) Drop(ctx context.Context) error {
	errHook := f.hook(ctx, "drop")
	if !f.Prefix.IsValid() {
		return errHook
	}
	link, err := netlink.LinkByName(f.Device)
	if err == nil {
		err = netlink.AddrDel(link, f.addr())
	}
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		err = nil
	}
	return errors.Join(errHook, err)
}

// Announce tells the neighbours where the address is now: by gratuitous ARP
// (RFC 5944 section 4.6), or an unsolicited neighbour advertisement (RFC 4861 section
// 7.2.6).
func (f Floating) Announce() error {
	if !f.Prefix.IsValid() {
		return nil
	}
	dev, err := net.InterfaceByName(f.Device)
	if err != nil {
		return fmt.Errorf("service address %s: %w", f, err)
	}
	if len(dev.HardwareAddr) != 6 {
		return nil // the loopback device, or a tunnel: it has no neighbours
	}
	if f.Prefix.Addr().Is4() {
		err = announce4(dev, f.Prefix.Addr())
	} else {
		err = announce6(dev, f.Prefix.Addr())
	}
	if err != nil {
		return fmt.Errorf("service address %s: not announced: %w", f, err)
	}
	return nil
}

// announce4 sends both forms, since hosts differ in which one they heed.
func announce4(dev *net.Interface, ip netip.Addr) error {
	c, err := arp.Dial(dev)
	if err != nil {
		return err
	}
	broadcast := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for _, op := range []arp.Operation{arp.OperationRequest, arp.OperationReply} {
		var p *arp.Packet
		if p, err = arp.NewPacket(op, dev.HardwareAddr, ip, broadcast, ip); err != nil {
			break
		}
		if err = c.WriteTo(p, broadcast); err != nil {
			break
		}
	}
	return errors.Join(err, c.Close())
}

func announce6(dev *net.Interface, ip netip.Addr) error {
	c, _, err := ndp.Listen(dev, ndp.LinkLocal)
	if err != nil {
		return err
	}
	err = c.WriteTo(&ndp.NeighborAdvertisement{
		Override: true, TargetAddress: ip,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: dev.HardwareAddr}},
	}, nil, netip.IPv6LinkLocalAllNodes())
	return errors.Join(err, c.Close())
}

// hook runs the program.
func (f Floating) hook(ctx context.Context, what string) error {
	if f.Hook == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.Hook, what)
	cmd.Env = append(os.Environ(), "MANIFOLD_ADDRESS="+f.String())
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hook %s %s: %w: %s", f.Hook, what, err, strings.TrimSpace(string(out[:min(len(out), 512)])))
	}
	return nil
}
