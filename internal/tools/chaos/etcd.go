//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// etcds are the members of an etcd. If there are several and it is possible, each has its own
// host. After SIGKILL it has all that it acknowledged.
type etcds struct {
	leads
	members []*script.EtcdServer
	hosts   []*host // of the members; none: that of this process
}

func openEtcds(at *rig, members int) *etcds {
	s := &etcds{}
	places := make([]script.Place, members)
	if at.hosts && members > 1 {
		const others = candidates + 1 // number of the hosts of candidates and newcomers
		for i := range places {
			h, err := newHost(at.worker, others+i)
			must.Check(err)
			at.Cleanup(h.Close)
			s.hosts = append(s.hosts, h)
			places[i] = script.Place{Addr: h.addr, Command: h.Command}
		}
	}
	s.members = script.StartEtcdsAt(at, places)
	s.leads = leads{leading: s.leader, ready: s.settled}
	s.ready()
	s.save(blank)
	s.ready()
	return s
}

// settled waits until all members know etcd's leader and the store answers.
func (s *etcds) settled() {
	for _, m := range s.members {
		must.Check(await(context.Background(), "a member of etcd with a leader", func() bool {
			status, err := status(m)
			return err == nil && status.Leader != "" && status.Leader != "0"
		}))
	}
	answers(s)
}

type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

func status(m *script.EtcdServer) (status etcdStatus, err error) {
	return status, ask(m, "/v3/maintenance/status", map[string]any{}, &status)
}

func ask(m *script.EtcdServer, path string, question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.Addr+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", m.Addr, path, a.Status)
	}
	return json.NewDecoder(a.Body).Decode(answer)
}

func (s *etcds) leader() script.Server {
	for _, m := range s.members {
		if status, err := status(m); err == nil && status.Leader == status.Header.Member {
			return m
		}
	}
	must.Check(errors.New("no member of etcd leads"))
	return nil
}

func (s *etcds) servers() []string {
	var all []string
	for _, m := range s.members {
		all = append(all, m.Addr)
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
func (s *etcds) save(as string) {
	for _, m := range s.members {
		m.Stop()
		defer m.Cont()
	}
	for _, m := range s.members {
		copyFolder(m.Dir, m.Dir+"-"+as)
	}
}

func (s *etcds) restartWith(ctx context.Context, copied string, after time.Duration) {
	for _, m := range s.members {
		m.Kill()
	}
	pause(ctx, after)
	for _, m := range s.members {
		copyFolder(m.Dir+"-"+copied, m.Dir)
	}
	script.RestartEtcds(s.members)
	s.ready()
}

// setFull makes etcd refuse data, as if its quota was used up, or accept data again.
func (s *etcds) setFull(full bool) {
	alarm := map[string]any{"action": map[bool]string{true: "ACTIVATE", false: "DEACTIVATE"}[full], "alarm": "NOSPACE"}
	if !slices.ContainsFunc(s.members, func(m *script.EtcdServer) bool { // one answer is enough for all members
		return ask(m, "/v3/maintenance/alarm", alarm, &struct{}{}) == nil
	}) {
		must.Check(errors.New("no member of etcd sets the alarm"))
	}
}

// partition cuts etcd's leader off from the other members; its clients still reach it.
func (s *etcds) partition() (undo func()) {
	leading := slices.Index(s.members, s.leader().(*script.EtcdServer))
	routes := func(verb string) {
		for i, h := range s.hosts {
			if i != leading {
				must.Check(s.hosts[leading].IP("route", verb, "blackhole", h.addr+"/32"))
			}
		}
	}
	routes("add")
	return func() { routes("del"); s.ready() }
}
