//go:build linux

package kubernetes

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A candidate of client-go's leader election wants the same lease.
func TestRivalStandsBy(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	r := request("k")
	r.TTL = 10 * time.Second
	l := grant(t, s, r)
	rival := b.StartRival(objectName(prefix, "k"))
	awaits(t, "rival that sees the leader", func() bool { return rival.Said("sees " + string(r.Holder)) })
	var renewed time.Time
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Second) {
		renewed = time.Now()
		renew(t, s, l)
	}
	if rival.Said("leads") {
		t.Fatal("it leads beside the holder")
	}
	awaits(t, "rival that leads", func() bool { return rival.Said("leads") })
	if after := time.Since(renewed); after < r.TTL {
		t.Errorf("it leads %s after the renewal, of a TTL of %s", after, r.TTL)
	}
	networktest.Lost(t, s, l)
	if err := s.Release(bounded(t), l, lease.Result{Ran: true}); !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v", err)
	}
	if b.lease(t, "k")["spec"].(map[string]any)["holderIdentity"] != "rival" {
		t.Error("it has lost the lease by that")
	}
}

// leaderrun waits for another program's lease until that was not renewed for its duration, or
// is released.
func TestRivalLeads(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	var now networktest.Clock
	now.Set(s.Store)
	rival := b.StartRival(objectName(prefix, "k"))
	awaits(t, "rival that leads", func() bool { return rival.Said("leads") })
	r := request("k")
	held := func() *lease.HeldError {
		t.Helper()
		held := denied(t, s, r)
		if held.Why != lease.Foreign || held.Value != "rival" {
			t.Fatalf("%+v", held)
		}
		return held
	}
	held()
	for range 3 { // the rival renews every second
		now.Advance(5 * time.Second)
		time.Sleep(1500 * time.Millisecond)
		held()
	}
	status, err := s.Inspect(bounded(t), "k")
	if err != nil || status.Why != lease.Foreign || status.Value != "rival" || status.Holder != "" {
		t.Errorf("%+v, %v", status, err)
	}
	if _, err := s.Revoke(bounded(t), "k", false); err != nil {
		t.Error(err)
	}
	rival.Kill()
	if left := held().Remaining; left <= 0 || left > 6*time.Second {
		t.Errorf("%s are left of 6 s", left)
	}
	now.Advance(6*time.Second + time.Millisecond)
	l := grant(t, s, r)
	spec := b.lease(t, "k")["spec"].(map[string]any)
	if spec["holderIdentity"] != string(r.Holder) || spec["leaseDurationSeconds"] != 30.0 || spec["leaseTransitions"] != 1.0 {
		t.Errorf("%v", spec)
	}
	if status, err = s.Inspect(bounded(t), "k"); err != nil || len(status.Runs) != 0 || status.Holder != r.Holder {
		t.Errorf("%+v, %v", status, err)
	}
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	next := b.StartRival(objectName(prefix, "k"))
	awaits(t, "rival that leads", func() bool { return next.Said("leads") })
}

// If another program's clock is wrong, its lease ends by the candidate's own clock. No wrong
// clock makes the duration in leaderrun's spec shorter.
func TestClocksOfRivals(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for key, renewed := range map[string]string{"ahead": "2100-01-01T00:00:00.000000Z", "behind": "2001-01-01T00:00:00.000000Z"} {
		b.put(t, key, map[string]any{"spec": map[string]any{
			"holderIdentity": "rival", "leaseDurationSeconds": 6, "acquireTime": renewed, "renewTime": renewed, "leaseTransitions": 4,
		}})
		s := b.open(t)
		var now networktest.Clock
		now.Set(s.Store)
		var denied *lease.HeldError
		if _, err := s.Acquire(bounded(t), request(key)); key == "ahead" && (!errors.As(err, &denied) || denied.Remaining > 6*time.Second) {
			t.Errorf("%s: %v", key, err)
		}
		now.Advance(6*time.Second + time.Millisecond)
		r := request(key)
		l := grant(t, s, r)
		renew(t, s, l)
		spec := b.lease(t, key)["spec"].(map[string]any)
		if year := spec["renewTime"].(string)[:4]; year == "2100" || year == "2001" || spec["leaseDurationSeconds"] != 30.0 || spec["leaseTransitions"] != 5.0 {
			t.Errorf("%s: %v", key, spec)
		}
	}
}

// Another program takes the lease from a holder of leaderrun's. Each read of it gives the same
// state, so a candidate that has watched the lease until its end is granted the key.
func TestRivalAfterHolder(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	var now networktest.Clock
	now.Set(s.Store)
	last := grant(t, s, request("k"))
	b.put(t, "k", map[string]any{"spec": map[string]any{
		"holderIdentity": "rival", "leaseDurationSeconds": 60, "renewTime": "2100-01-01T00:00:00.000000Z",
	}})
	r := request("k")
	for range 5 {
		denied(t, s, r)
		now.Advance(10 * time.Second)
	}
	now.Advance(10*time.Second + time.Millisecond)
	networktest.GrantAfter(t, s, r, last)
}

// kubectl get lease prints what the API server makes of the object: name, holder, age.
func TestListedByKubectl(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	printed := func() []any {
		t.Helper()
		_, table := b.ask(t, "GET", "", nil)
		var columns []string
		for _, c := range table["columnDefinitions"].([]any) {
			columns = append(columns, c.(map[string]any)["name"].(string))
		}
		rows := table["rows"].([]any)
		if !slices.Equal(columns, []string{"Name", "Holder", "Age"}) || len(rows) != 1 {
			t.Fatalf("columns %q, %d rows", columns, len(rows))
		}
		return rows[0].(map[string]any)["cells"].([]any)
	}
	l := grant(t, s, request("k"))
	if cells := printed(); cells[0] != "leaderrun.k" || cells[1] != string(l.Holder) || cells[2] == "<unknown>" {
		t.Errorf("held: %q", cells)
	}
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	if cells := printed(); cells[1] != "" {
		t.Errorf("free: %q", cells)
	}
}

// What a person writes with kubectl.
func TestEdited(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("cleared"))
	b.put(t, "cleared", map[string]any{"spec": map[string]any{"holderIdentity": nil}})
	networktest.Lost(t, s, l)
	networktest.GrantAfter(t, s, request("cleared"), l)

	b.put(t, "endless", map[string]any{"spec": map[string]any{"holderIdentity": "somebody"}})
	var now networktest.Clock
	now.Set(s.Store)
	now.Advance(time.Hour)
	if held := denied(t, s, request("endless")); held.Value != "somebody" {
		t.Errorf("a lease without a duration: %+v", held)
	}
	if _, err := s.Revoke(bounded(t), "endless", true); err != nil {
		t.Fatal(err)
	}
	grant(t, s, request("endless"))

	l = grant(t, s, request("bare"))
	b.put(t, "bare", map[string]any{"metadata": map[string]any{"annotations": nil}})
	denied(t, s, request("bare")) // without its annotation
	networktest.ComesBack(t, s, l)
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))

	l = grant(t, s, request("labelled"))
	b.put(t, "labelled", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}, "annotations": map[string]any{"note": "b"}}})
	renew(t, s, l)
	metadata := b.lease(t, "labelled")["metadata"].(map[string]any)
	if metadata["labels"].(map[string]any)["team"] != "a" || metadata["annotations"].(map[string]any)["note"] != "b" {
		t.Errorf("%v", metadata)
	}
}
