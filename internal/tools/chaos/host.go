//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

// host is a candidate's host, with one cable to the servers, which are on this process's
// host.
type host struct {
	*faultnet.Host
	*faultnet.Cable
	addr string
}

// here is the host of this process.
var here faultnet.Host

// serverAddr returns the address of a worker's servers, for all its hosts.
func serverAddr(worker int) string { return fmt.Sprintf("10.77.%d.1", worker) }

// openHere makes this process's host forward packets from one cable to another.
func openHere() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return here.IP("link", "set", "lo", "up")
}

// openNetwork gives the servers of a worker their address.
func openNetwork(worker int) error {
	return here.IP("addr", "add", serverAddr(worker)+"/32", "dev", "lo")
}

func newHost(worker, i int) (*host, error) {
	own, err := faultnet.NewHost()
	if err != nil {
		return nil, err
	}
	addr := func(last int) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, byte(worker), byte(4*i + last)}) }
	cable, err := faultnet.Connect(
		faultnet.CableEnd{Host: &here, Device: fmt.Sprintf("w%dh%d", worker, i), Addr: addr(1)},
		faultnet.CableEnd{Host: own, Device: "eth0", Addr: addr(2)})
	if err != nil {
		return nil, err
	}
	return &host{own, cable, addr(2).String()}, own.IP("route", "add", "default", "via", addr(1).String())
}
