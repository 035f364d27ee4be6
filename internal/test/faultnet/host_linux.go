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

// Host is a network namespace, which needs root. The zero value is that of this process.
type Host struct{ namespace *os.File }

// NewHost makes a namespace with only a loopback device. It disappears after Close when its
// processes have ended.
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

// Close releases the namespace.
func (h *Host) Close() { h.namespace.Close() }

func (h *Host) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.namespace.Fd()) }

// Command returns a command that runs on the host. Its process id is that of the program.
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

// hardware returns a hardware address that is unique in this program.
func (e CableEnd) hardware() string {
	a := e.Addr.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// nowhere is a hardware address that no device has.
const nowhere = "02:00:ff:ff:ff:ff"

// Connect joins two hosts, whose addresses are in the same /30 network. b must not be this
// process's namespace.
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

// SetDark drops all packets, in both directions, or none: it sends them to a hardware
// address that no device has.
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
