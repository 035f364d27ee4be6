//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var etcdWorld = world{
	name: "etcd", ttl: 3 * time.Second, apart: membersApart, has: []need{proxied, oldData, quota},
	open: func(at site) (backend, error) { return openEtcds(at, 1) },
}

var etcdsWorld = world{
	name: "etcd-cluster", apart: membersApart, ttl: 6 * time.Second, // so that it is longer than an election
	has:  []need{proxied, oldData, quota, peers},
	open: func(at site) (backend, error) { return openEtcds(at, 3) },
}

// etcds are the members of an etcd. If there are several and it is possible, each has its own
// host. After SIGKILL it has all that it acknowledged.
type etcds struct {
	leads[*etcdMember]
	members []*etcdMember
}

type etcdMember struct {
	node
	client, peer string // addresses
	dir          string
	host         *host // nil: that of this process
}

func openEtcds(at site, members int) (backend, error) {
	s := &etcds{}
	if err := s.open(at, members); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *etcds) open(at site, members int) error {
	s.leads = leads[*etcdMember]{leading: s.leader, ready: s.settled}
	var initial []string
	for i := range members {
		m := &etcdMember{dir: filepath.Join(at.dir, fmt.Sprintf("etcd%d", i))}
		addr := at.addr
		if at.hosts && members > 1 {
			const others = candidates + 1 // number of the hosts of candidates and newcomers
			var err error
			if m.host, err = newHost(at.worker, others+i); err != nil {
				return err
			}
			addr = m.host.addr
		}
		ports, err := freePorts(at.addr, 2) // free ports here are free there, too
		if err != nil {
			return err
		}
		m.client, m.peer = net.JoinHostPort(addr, ports[0]), net.JoinHostPort(addr, ports[1])
		s.members = append(s.members, m)
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, m.peer))
	}
	return s.begin(initial)
}

// freePorts returns different ports that nobody uses now.
func freePorts(addr string, n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}

func (s *etcds) begin(initial []string) error {
	for i, m := range s.members {
		// The kernel has all acknowledged data, as with Redis.
		args := []string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", m.dir, "--listen-client-urls", "http://" + m.client, "--advertise-client-urls", "http://" + m.client,
			"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.peer, "--initial-cluster", strings.Join(initial, ","),
			"--logger", "zap", "--log-outputs", m.dir + ".log", "--unsafe-no-fsync",
		}
		m.env = os.Environ()
		m.command = func() *exec.Cmd {
			if m.host != nil {
				return m.host.Command("etcd", args...)
			}
			return exec.Command("etcd", args...)
		}
	}
	return s.launch(blank)
}

// launch starts all members with a copy of their data.
func (s *etcds) launch(copied string) error {
	for _, m := range s.members {
		if err := os.RemoveAll(m.dir); err != nil {
			return err
		}
		if copied != blank {
			if err := copyFolder(m.dir+"-"+copied, m.dir); err != nil {
				return err
			}
		}
		if err := m.launch(); err != nil {
			return err
		}
	}
	return s.ready()
}

// settled waits until all members know etcd's leader and the store answers.
func (s *etcds) settled() error {
	for _, m := range s.members {
		err := await(context.Background(), "a member of etcd with a leader", func() bool {
			status, err := m.status()
			return err == nil && status.Leader != "" && status.Leader != "0"
		})
		if err != nil {
			return err
		}
	}
	return answers(s)
}

type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

func (m *etcdMember) status() (status etcdStatus, err error) {
	return status, m.ask("/v3/maintenance/status", map[string]any{}, &status)
}

func (m *etcdMember) ask(path string, question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.client+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", m.client, path, a.Status)
	}
	return json.NewDecoder(a.Body).Decode(answer)
}

func (s *etcds) leader() (*etcdMember, error) {
	for _, m := range s.members {
		if status, err := m.status(); err == nil && status.Leader == status.Header.Member {
			return m, nil
		}
	}
	return nil, errors.New("no member of etcd leads")
}

func (s *etcds) servers() []string {
	var all []string
	for _, m := range s.members {
		all = append(all, m.client)
	}
	return all
}

func (s *etcds) url(proxies []string) string {
	if len(proxies) == 0 {
		proxies = s.servers()
	}
	return "etcd://" + strings.Join(proxies, ",")
}

// save copies the data of all members while all are stopped.
func (s *etcds) save() error {
	for _, m := range s.members {
		m.signal(syscall.SIGSTOP)
		defer m.signal(syscall.SIGCONT)
	}
	for _, m := range s.members {
		to := m.dir + "-" + snapshot
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := copyFolder(m.dir, to); err != nil {
			return err
		}
	}
	return nil
}

func (s *etcds) restartWith(ctx context.Context, copied string, after time.Duration) error {
	for _, m := range s.members {
		if err := m.kill(); err != nil {
			return err
		}
	}
	pause(ctx, after)
	return s.launch(copied)
}

// setFull makes etcd refuse data, as if its quota was used up, or accept data again.
func (s *etcds) setFull(full bool) error {
	action := map[bool]string{true: "ACTIVATE", false: "DEACTIVATE"}[full]
	err := errors.New("no member")
	for _, m := range s.members {
		alarm := map[string]any{"action": action, "alarm": "NOSPACE"}
		if err = m.ask("/v3/maintenance/alarm", alarm, &struct{}{}); err == nil {
			break // one answer is enough for all members
		}
	}
	return err
}

// partition cuts etcd's leader off from the other members; its clients still reach it.
func (s *etcds) partition() (undo func() error, err error) {
	leading, err := s.leading()
	if err != nil {
		return nil, err
	}
	routes := func(verb string) error {
		for _, m := range s.members {
			if m != leading {
				if err := leading.host.IP("route", verb, "blackhole", m.host.addr+"/32"); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return func() error { return errors.Join(routes("del"), s.ready()) }, routes("add")
}

func (s *etcds) stop() {
	for _, m := range s.members {
		m.end()
		if m.host != nil {
			m.host.Close()
		}
	}
}
