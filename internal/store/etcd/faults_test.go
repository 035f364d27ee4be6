//go:build linux

package etcd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/faultnet"
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

// A change whose answer is lost has been made. The holder learns that by asking again.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	proxy, err := faultnet.Listen(b.Addr)
	must.Succeed(t, err)
	t.Cleanup(proxy.Close)
	s := openWith(t, Options{URL: "etcd://" + proxy.Addr()})
	l := grant(t, s, request("k"))
	for _, answers := range []int{0, 1} { // the answer to the read is lost, or to the write
		proxy.Delay(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(answers)*200*time.Millisecond+150*time.Millisecond)
		_, err := s.Renew(ctx, l)
		cancel()
		networktest.WantError(t, err, false, "", "")
		proxy.Delay(0)
		renew(t, s, l) // asked again
	}
}

// If a change gets no answer, the next member is asked. An operator's change is made only
// once.
func TestAnswerToAnOperatorIsLost(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var loses atomic.Bool
	s := openWith(t, Options{URL: "etcd://" + losingWrites(t, b.Addr, &loses) + "," + b.Addr})
	l := grant(t, s, request("k"))
	loses.Store(true)
	if status, err := s.Revoke(bounded(t), "k", true); err != nil || status.Holder != l.Holder {
		t.Errorf("%+v, %v; want it to be taken from %s", status, err, l.Holder)
	}
	if loses.Load() {
		t.Error("no answer was lost")
	}
	if status, err := s.Inspect(bounded(t), "k"); err != nil || status.Why != "" {
		t.Errorf("%+v, %v", status, err)
	}
}

// losingWrites returns the address of a proxy that loses the answer to the next write after
// loses is set.
func losingWrites(t *testing.T, target string, loses *atomic.Bool) string {
	t.Helper()
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		if !bytes.Contains(text, []byte(`"compare"`)) || !loses.Swap(false) {
			to.ServeHTTP(w, r)
			return
		}
		to.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the connection is closed
	}))
	t.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String()
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

// etcd's leader is killed and comes back, and then each member stops for a while. A healthy
// holder keeps its lease, and its release at the end wakes a standby.
func TestMembersAreLost(t *testing.T) {
	t.Parallel()
	members, url := cluster(t)
	s, standby := openWith(t, Options{URL: url}), openWith(t, Options{URL: url})
	r := request("k")
	r.TTL = 30 * time.Second
	l := grant(t, s, r)
	killed := script.EtcdLeader(t, members)
	killed.Kill()
	networktest.Renews(t, s, l, 6*time.Second)
	killed.Restart()
	for _, m := range members {
		m.Stop()
		networktest.Renews(t, s, l, 4*time.Second)
		m.Cont()
		networktest.Renews(t, s, l, time.Second)
	}
	next := request("k")
	denied(t, standby, next)
	over := networktest.Start(func() error { return standby.Wait(bounded(t), "k", time.Minute) })
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	must.Succeed(t, endOf(t, over))
	networktest.GrantAfter(t, standby, next, l)
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
	networktest.WantError(t, err, false, "", "check that it runs")
	networktest.WantError(t, endOf(t, listening), false, "", "") // the member has lost the others
	members[1].Restart()
	renew(t, s, l)
}
