//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// host is a network namespace with one link to the servers. They share that of
// this process.
type host struct {
	namespace    *os.File
	outer, inner linkEnd
}

// linkEnd is one end of the link.
type linkEnd struct{ device, addr, hardware string }

// nowhere is the hardware address of nobody.
const nowhere = "02:00:00:00:ff:ff"

// serverAddr is where the servers of a worker are, for all its hosts.
func serverAddr(worker int) string { return fmt.Sprintf("10.77.%d.1", worker) }

// openNetwork gives the servers of a worker their address.
func openNetwork(worker int) error {
	return ip("addr", "add", serverAddr(worker)+"/32", "dev", "lo")
}

func newHost(worker, i int) (*host, error) {
	namespace, err := newNamespace()
	if err != nil {
		return nil, err
	}
	h := &host{
		namespace: namespace,
		outer:     linkEnd{fmt.Sprintf("w%dh%d", worker, i), fmt.Sprintf("10.78.%d.%d", worker, 4*i+1), fmt.Sprintf("02:00:00:01:%02x:%02x", worker, i)},
		inner:     linkEnd{"eth0", fmt.Sprintf("10.78.%d.%d", worker, 4*i+2), fmt.Sprintf("02:00:00:02:%02x:%02x", worker, i)},
	}
	steps := [][]string{
		{"link", "add", h.outer.device, "address", h.outer.hardware, "type", "veth", "peer", "name", h.inner.device, "address", h.inner.hardware, "netns", h.path()},
		{"addr", "add", h.outer.addr + "/30", "dev", h.outer.device},
		{"link", "set", h.outer.device, "up"},
	}
	for _, step := range steps {
		if err := ip(step...); err != nil {
			return nil, err
		}
	}
	steps = [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", h.inner.addr + "/30", "dev", h.inner.device},
		{"link", "set", h.inner.device, "up"},
		{"route", "add", "default", "via", h.outer.addr},
	}
	for _, step := range steps {
		if err := h.ip(step...); err != nil {
			return nil, err
		}
	}
	return h, h.setDark(false)
}

// newNamespace returns a network namespace that lives as long as the file is open.
func newNamespace() (*os.File, error) {
	var file *os.File
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // and never unlocked: the thread ends, and its namespace stays with the file alone
		if err = syscall.Unshare(syscall.CLONE_NEWNET); err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
	}()
	<-over
	return file, err
}

func (h *host) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.namespace.Fd()) }

// command is one that runs on the host, with the process id of nsenter.
func (h *host) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", slices.Concat([]string{"--net=" + h.path(), "--", name}, args)...)
}

// setDark lets all packets of the link vanish, in both directions, or none: those
// to a hardware address that nobody has are taken by nobody.
func (h *host) setDark(dark bool) error {
	toInner, toOuter := h.inner.hardware, h.outer.hardware
	if dark {
		toInner, toOuter = nowhere, nowhere
	}
	if err := ip("neigh", "replace", h.inner.addr, "lladdr", toInner, "nud", "permanent", "dev", h.outer.device); err != nil {
		return err
	}
	return h.ip("neigh", "replace", h.outer.addr, "lladdr", toOuter, "nud", "permanent", "dev", h.inner.device)
}

func (h *host) close() { h.namespace.Close() }

func (h *host) ip(args ...string) error { return run(h.command("ip", args...)) }

func ip(args ...string) error { return run(exec.Command("ip", args...)) }

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
