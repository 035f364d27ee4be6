package script

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// EtcdServer is a member of an etcd of one test. It listens on loopback only and is
// gone with the test, also when the test process is killed.
type EtcdServer struct {
	Addr string // 127.0.0.1:PORT, for clients
	Dir  string // its data

	t    testing.TB
	args []string
	cmd  *exec.Cmd
	gone chan struct{} // closed once the process has been reaped
	out  *output
}

// StartEtcd starts an etcd of one member and waits until it serves. args are further
// arguments in etcd's own form; with --cert-file it speaks TLS. Without the program the
// test is skipped; where CI is set it fails.
func StartEtcd(t testing.TB, args ...string) *EtcdServer {
	t.Helper()
	return StartEtcds(t, 1, args...)[0]
}

// StartEtcds starts an etcd of several members.
func StartEtcds(t testing.TB, members int, args ...string) []*EtcdServer {
	t.Helper()
	needPackage(t, "etcd", "etcd-server")
	scheme := "http://"
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--cert-file") }) {
		scheme = "https://"
	}
	var all []*EtcdServer
	t.Cleanup(func() { kill(all) })
	for range 5 { // another process may take a port by its number
		kill(all)
		all = nil
		var peers, initial []string
		for i := range members {
			peer := "http://" + loopback(t)
			peers, initial = append(peers, peer), append(initial, fmt.Sprintf("m%d=%s", i, peer))
		}
		for i, peer := range peers {
			s := &EtcdServer{t: t, Addr: loopback(t), Dir: filepath.Join(t.TempDir(), "data")}
			s.args = append([]string{
				"--name", fmt.Sprint("m", i), "--data-dir", s.Dir, "--listen-client-urls", scheme + s.Addr, "--advertise-client-urls", scheme + s.Addr,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(initial, ","), "--logger", "zap",
				"--unsafe-no-fsync", // what it writes outlives the process, and tests cut no power
			}, args...)
			all = append(all, s)
			s.launch()
		}
		if !slices.ContainsFunc(all, func(s *EtcdServer) bool { return !s.serves() }) {
			return all
		}
	}
	t.Fatalf("etcd does not start:\n%s", all[0].out)
	return nil
}

func loopback(t testing.TB) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
}

func kill(all []*EtcdServer) {
	for _, s := range all {
		s.Kill()
	}
}

// Stop freezes the member: its connections stay, nothing is answered.
func (s *EtcdServer) Stop() { s.signal(syscall.SIGSTOP) }

// Cont lets a frozen member go on.
func (s *EtcdServer) Cont() { s.signal(syscall.SIGCONT) }

// Kill ends the member with SIGKILL and waits until it is gone. It may be called
// again.
func (s *EtcdServer) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only when it is gone already
	<-s.gone
	s.cmd = nil
}

// Restart starts the member again on the same port, with what is in Dir and with
// further arguments.
func (s *EtcdServer) Restart(args ...string) {
	s.t.Helper()
	s.args = append(s.args, args...)
	s.Kill()
	for until := time.Now().Add(startPatience); time.Now().Before(until); {
		if s.launch(); s.serves() {
			return
		}
	}
	s.t.Fatalf("etcd does not start again:\n%s", s.out)
}

func (s *EtcdServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal etcd: %v", err)
	}
}

func (s *EtcdServer) launch() {
	s.t.Helper()
	s.cmd = exec.Command("etcd", s.args...)
	s.cmd.SysProcAttr = dieWithParent()
	s.out = newOutput("serving client traffic ")
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.gone = launch(s.t, s.cmd)
}

// serves waits until the member serves, and reports whether it does. It does not when
// its port is taken.
func (s *EtcdServer) serves() bool {
	if !s.out.listens(s.gone) {
		s.Kill()
		return false
	}
	return true
}
