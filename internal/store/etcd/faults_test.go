//go:build linux

package etcd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// Changes may have been lost before a new term: the first grant after a restart settles,
// unless the key was renewed in that term.
func TestRestart(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	must.Succeed(t, s.Release(bounded(t), grant(t, s, request("free")), lease.Result{Ran: true}))
	l := grant(t, s, request("held"))
	b.Restart()
	renew(t, s, l)
	networktest.Settles(t, s, request("free"), lease.SettleRestarted)
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	if _, err := s.Acquire(bounded(t), request("held")); err != nil {
		t.Errorf("%v; it was renewed after the restart", err)
	}
}

// If etcd comes back with data from before a grant, the key settles, and a holder that is
// alive restores its lease.
func TestOlderData(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	first := grant(t, s, request("k"))
	must.Succeed(t, s.Release(bounded(t), first, lease.Result{Ran: true}))
	restore := b.Save()
	l := grant(t, s, request("k"))
	restore()
	networktest.Settles(t, b.open(t), request("k"), lease.SettleRestarted)
	networktest.ComesBack(t, s, l)
	denied(t, b.open(t), request("k"))
}

// cluster starts an etcd of three members, and returns an address that names all of them.
func cluster(t *testing.T) ([]*script.EtcdServer, string) {
	t.Helper()
	members := script.StartEtcds(t, 3)
	var hosts []string
	for _, m := range members {
		hosts = append(hosts, m.Addr)
	}
	return members, "etcd://" + strings.Join(hosts, ",")
}

// A member that lags does not answer with old data: a read waits until it has the others'
// data.
func TestMemberLags(t *testing.T) {
	t.Parallel()
	members, url := cluster(t)
	late := members[0]
	if late == script.EtcdLeader(t, members) {
		late = members[1]
	}
	s, behind := openWith(t, Options{URL: url}), openWith(t, Options{URL: "etcd://" + late.Addr})
	r := request("k")
	first := grant(t, s, r)
	if _, err := behind.Inspect(bounded(t), "k"); err != nil { // so that it has a connection
		t.Fatal(err)
	}
	for range 5 {
		late.Stop()
		must.Succeed(t, s.Release(bounded(t), first, lease.Result{Ran: true}))
		next := grant(t, s, request("k"))
		asked := make(chan lease.Status, 1)
		go func() {
			status, _ := behind.Inspect(bounded(t), "k")
			asked <- status
		}()
		time.Sleep(50 * time.Millisecond) // the request has to arrive before the others' data
		late.Cont()
		if status := <-asked; status.Token != next.Token {
			t.Fatalf("it shows token %d, %d is the last", status.Token, next.Token)
		}
		first = next
	}
}

// If etcd accepts no more data, renewals fail and are repeated. The lease goes on once there
// is room again.
func TestQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	alarm := func(action string) {
		b.ask(t, "/v3/maintenance/alarm", map[string]any{"action": action, "alarm": "NOSPACE"})
	}
	alarm("ACTIVATE")
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "database space exceeded", "alarm disarm")
	_, err := b.open(t).Acquire(bounded(t), request("other"))
	networktest.WantError(t, err, false, "database space exceeded", "alarm disarm")
	if status, err := s.Inspect(bounded(t), "k"); err != nil || status.Holder != l.Holder {
		t.Errorf("%+v, %v", status, err)
	}
	networktest.Finds(t, networktest.Found(t, s.Examine(bounded(t), time.Minute, 0), "alarms"), lease.Bad, "NOSPACE")
	alarm("DEACTIVATE")
	renew(t, s, l)
}

// Without a majority nothing is granted or renewed, and nothing is lost.
func TestMajorityIsLost(t *testing.T) {
	t.Parallel()
	members, url := cluster(t)
	s := openWith(t, Options{URL: url})
	l := grant(t, s, request("k"))
	listening := networktest.Start(func() error { return s.Listen(t.Context(), "k") })
	members[1].Kill()
	members[2].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := s.Renew(ctx, l)
	networktest.WantError(t, err, false, "", "check that it still runs")
	networktest.WantError(t, endOf(t, listening), false, "", "") // the member has lost the others
	members[1].Restart()
	renew(t, s, l)
}
