package script

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// EtcdServer is a member of one test's etcd. It listens only on loopback and ends with the
// test, even if the test process is killed.
type EtcdServer struct {
	Addr string // 127.0.0.1:PORT, for clients
	process
}

// StartEtcd starts an etcd of one member and waits until it serves. args are more arguments
// for etcd; with --cert-file it speaks TLS. Without the program the test is skipped, or fails
// if CI is set.
func StartEtcd(t testing.TB, args ...string) *EtcdServer {
	t.Helper()
	return StartEtcds(t, 1, args...)[0]
}

// StartEtcds starts an etcd of several members.
func StartEtcds(t testing.TB, members int, args ...string) []*EtcdServer {
	t.Helper()
	return StartEtcdsAt(t, make([]Place, members), args...)
}

// Place is a host: its address, and what makes a command on it.
type Place struct {
	Addr    string
	Command func(name string, args ...string) *exec.Cmd
}

// StartEtcdsAt starts an etcd with a member on each of the hosts. The empty one is that of the
// test.
func StartEtcdsAt(t testing.TB, places []Place, args ...string) []*EtcdServer {
	t.Helper()
	needPackage(t, "etcd", "etcd-server")
	scheme := "http://"
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--cert-file") }) {
		scheme = "https://"
	}
	var all []*EtcdServer
	t.Cleanup(func() { kill(all) })
	for range 5 { // another process may take a port
		kill(all)
		all = nil
		var peers, initial []string
		for i, place := range places {
			peer := "http://" + place.freeAddr(t)
			peers, initial = append(peers, peer), append(initial, fmt.Sprintf("m%d=%s", i, peer))
		}
		for i, peer := range peers {
			s := &EtcdServer{Addr: places[i].freeAddr(t)}
			s.process = process{
				t: t, command: places[i].Command, name: "etcd", says: []string{"serving client traffic "}, Dir: filepath.Join(t.TempDir(), "data"),
			}
			s.args = append([]string{
				"--name", fmt.Sprint("m", i), "--data-dir", s.Dir, "--listen-client-urls", scheme + s.Addr, "--advertise-client-urls", scheme + s.Addr,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(initial, ","), "--logger", "zap",
				"--unsafe-no-fsync", // data outlives the process without it, and tests do not cut the power
			}, args...)
			all = append(all, s)
		}
		if startEtcds(all) {
			return all
		}
	}
	t.Fatalf("etcd does not start:\n%s", all[0].out)
	return nil
}

// freeAddr returns a free port there. A port that is free on this host is free there, too.
func (p Place) freeAddr(t testing.TB) string {
	host, port, _ := net.SplitHostPort(freeAddr(t))
	return net.JoinHostPort(cmp.Or(p.Addr, host), port)
}

// startEtcds starts all members at once, since one alone does not serve.
func startEtcds(all []*EtcdServer) bool {
	for _, s := range all {
		s.launch()
	}
	return !slices.ContainsFunc(all, func(s *EtcdServer) bool { return !s.serves() })
}

// RestartEtcds restarts all members at once.
func RestartEtcds(all []*EtcdServer) {
	kill(all)
	if !startAgain(func() bool { return startEtcds(all) }) {
		all[0].t.Fatalf("etcd does not start again:\n%s", all[0].out)
	}
}

// EtcdLeader returns the member that leads.
func EtcdLeader(t testing.TB, members []*EtcdServer) *EtcdServer {
	t.Helper()
	for _, m := range members {
		resp, err := http.Post("http://"+m.Addr+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
		must.Succeed(t, err)
		var status struct {
			Header struct {
				Member string `json:"member_id"`
			} `json:"header"`
			Leader string `json:"leader"`
		}
		err = json.NewDecoder(resp.Body).Decode(&status)
		_ = resp.Body.Close()
		if err == nil && status.Leader == status.Header.Member {
			return m
		}
	}
	t.Fatal("no member leads")
	return nil
}

// Save keeps what a member has, and restore brings it back; the member is killed for both.
func (s *EtcdServer) Save() (restore func()) {
	s.t.Helper()
	saved := s.t.TempDir()
	s.replace(saved, s.Dir)
	return func() { s.t.Helper(); s.replace(s.Dir, saved) }
}

// replace starts a member again once a directory is a copy of another one.
func (s *EtcdServer) replace(dir, by string) {
	s.t.Helper()
	s.Kill()
	must.Succeed(s.t, os.RemoveAll(dir))
	must.Succeed(s.t, os.CopyFS(dir, os.DirFS(by)))
	s.Restart()
}

func kill(all []*EtcdServer) {
	for _, s := range all {
		s.Kill()
	}
}
