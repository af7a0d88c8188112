package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// nfsPort is what mount assumes.
const nfsPort = 2049

// mountLine is the command that mounts the server at addr, called host.
func mountLine(host string, addr net.Addr) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	options := "vers=4.2,proto=tcp"
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.Port != nfsPort {
		options += fmt.Sprintf(",port=%d", tcp.Port)
	}
	return fmt.Sprintf("mount -t nfs4 -o %s %s:/ /mnt", options, host)
}

// reachable returns host, or, if it stands for all addresses of this machine,
// one that others can use.
func reachable(host string) string {
	ip, err := netip.ParseAddr(host)
	if host != "" && (err != nil || !ip.IsUnspecified()) {
		return host
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		addrs = nil
	}
	var six string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			return n.IP.String()
		}
		if six == "" && host != "0.0.0.0" {
			six = n.IP.String()
		}
	}
	if six != "" {
		return six
	}
	if name, err := os.Hostname(); err == nil && len(addrs) > 0 {
		if _, err := net.LookupHost(name); err == nil {
			return name
		}
	}
	return "localhost"
}
