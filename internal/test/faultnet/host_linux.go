package faultnet

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Host is a network namespace, for which it takes root, or, as the zero value, that
// of this process.
type Host struct{ namespace *os.File }

// NewHost makes one with no network but its loopback. It is gone once it is closed
// and its processes have ended.
func NewHost() (*Host, error) {
	var h Host
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // and never unlocked: the thread ends, and its namespace stays with the file alone
		if err = syscall.Unshare(syscall.CLONE_NEWNET); err == nil {
			h.namespace, err = os.Open("/proc/thread-self/ns/net")
		}
	}()
	<-over
	if err != nil {
		return nil, fmt.Errorf("a network namespace: %w", err)
	}
	return &h, h.IP("link", "set", "lo", "up")
}

// Close gives the namespace up.
func (h *Host) Close() { h.namespace.Close() }

func (h *Host) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.namespace.Fd()) }

// Command is one that runs on the host. Its process id is the program's own.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	if h.namespace == nil {
		return exec.Command(name, args...)
	}
	return exec.Command("nsenter", slices.Concat([]string{"--net=" + h.path(), "--", name}, args)...)
}

// IP runs the program ip on the host.
func (h *Host) IP(args ...string) error {
	cmd := h.Command("ip", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// Cable joins two hosts.
type Cable struct{ ends [2]CableEnd }

// CableEnd is a device of a host, and its address.
type CableEnd struct {
	Host   *Host
	Device string
	Addr   netip.Addr
}

// hardware is an address that no other end of this program has.
func (e CableEnd) hardware() string {
	a := e.Addr.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// nowhere is the hardware address of nobody.
const nowhere = "02:00:ff:ff:ff:ff"

// Connect joins two hosts, whose addresses are of the same four. The second one is
// not that of this process.
func Connect(a, b CableEnd) (*Cable, error) {
	steps := []struct {
		host *Host
		args []string
	}{
		{a.Host, []string{"link", "add", a.Device, "address", a.hardware(), "type", "veth", "peer", "name", b.Device, "address", b.hardware(), "netns", b.Host.path()}},
		{a.Host, []string{"addr", "add", a.Addr.String() + "/30", "dev", a.Device}},
		{b.Host, []string{"addr", "add", b.Addr.String() + "/30", "dev", b.Device}},
		{a.Host, []string{"link", "set", a.Device, "up"}},
		{b.Host, []string{"link", "set", b.Device, "up"}},
	}
	for _, step := range steps {
		if err := step.host.IP(step.args...); err != nil {
			return nil, err
		}
	}
	c := &Cable{ends: [2]CableEnd{a, b}}
	return c, c.SetDark(false)
}

// SetDark lets all packets vanish, in both directions, or none: those to a hardware
// address that nobody has are taken by nobody.
func (c *Cable) SetDark(dark bool) error {
	for i, e := range c.ends {
		other := c.ends[1-i]
		to := other.hardware()
		if dark {
			to = nowhere
		}
		if err := e.Host.IP("neigh", "replace", other.Addr.String(), "lladdr", to, "nud", "permanent", "dev", e.Device); err != nil {
			return err
		}
	}
	return nil
}
