package linux

import (
	"fmt"
	"os/exec"
	"strings"
)

// bridgeName is the one bridge of a run's network.
const bridgeName = "br0"

// Address is this side's own address on the network, by which guests reach the
// harness. The network is 10.98.0.0/16.
const Address = "10.98.255.254"

// bridge makes the network, empty.
func bridge() error {
	return ip("link set lo up",
		"link add "+bridgeName+" type bridge stp_state 0 forward_delay 0",
		"addr add "+Address+"/16 dev "+bridgeName,
		"link set "+bridgeName+" up")
}

// AddAddress gives this side of the network an address, such as 10.98.0.1/16,
// for a server to listen on.
func AddAddress(address string) error { return ip("addr replace " + address + " dev " + bridgeName) }

// AddTap makes the tap device of that name, for a guest, on the bridge.
func AddTap(name string) error {
	return ip("tuntap add "+name+" mode tap", "link set "+name+" master "+bridgeName, "link set "+name+" up")
}

// RemoveTap removes a tap device.
func RemoveTap(name string) error { return ip("link del " + name) }

// ip runs commands of ip(8) in order.
func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
