//go:build linux

package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	members, url := cluster(t)
	s := openWith(t, Options{URL: url})
	examined := func() []lease.Finding { return s.Examine(bounded(t), 0, time.Second) }
	count := map[string]int{}
	for _, f := range examined() {
		count[f.Subject]++
		if f.Verdict != lease.Fine || f.Subject == "server" && !strings.Contains(f.Text, "etcd 3.") {
			t.Errorf("%+v", f)
		}
	}
	if count["server"] != 3 || count["durability"] != 1 || count["quorum"] != 1 || count["alarms"] != 1 || count["clocks"] != 1 {
		t.Errorf("%v", count)
	}
	members[2].Kill()
	networktest.Finds(t, examined()[2], lease.Doubtful, members[2].Addr)
	members[1].Kill()
	members[0].Kill()
	for _, f := range examined() {
		networktest.Finds(t, f, lease.Bad, "")
	}
}

func TestClocksOfMembers(t *testing.T) {
	at := func(least, most time.Duration) member { return member{least: least, most: most} }
	for name, c := range map[string]struct {
		members []member
		want    lease.Verdict
		says    string
	}{
		"one":                {[]member{at(0, time.Second)}, lease.Fine, "no difference"},
		"within the seconds": {[]member{at(0, time.Second), at(900*time.Millisecond, 2*time.Second)}, lease.Fine, "no difference"},
		"apart":              {[]member{at(0, time.Second), at(4*time.Second, 5*time.Second)}, lease.Doubtful, "3s at least"},
		"one did not answer": {[]member{at(9*time.Second, 10*time.Second), {err: &lease.StoreError{Err: errNoAnswer}}}, lease.Fine, "no difference"},
	} {
		t.Run(name, func(t *testing.T) { networktest.Finds(t, clocks(c.members, 31*time.Second), c.want, c.says) })
	}
}

func TestVersionsThatForget(t *testing.T) {
	for version, want := range map[string]lease.Verdict{
		"3.4.20": lease.Doubtful, "3.4.21": lease.Fine, "3.4.23": lease.Fine, "3.5.0": lease.Doubtful, "3.5.4": lease.Doubtful, "3.5.5": lease.Fine,
		"3.6.0": lease.Fine, "4.0.0": lease.Fine, "": lease.Fine,
	} {
		says := ""
		if want == lease.Doubtful {
			says = version + " at b"
		}
		networktest.Finds(t, durability([]member{{status: statusAnswer{Version: "3.6.16"}}, {host: "b", status: statusAnswer{Version: version}}}), want, says)
	}
}

func TestQuorumAndAlarms(t *testing.T) {
	sick := []member{{host: "a", status: statusAnswer{Leader: "1"}}, {host: "b", status: statusAnswer{Leader: "0", Errors: []string{"memberID:1 alarm:NOSPACE "}}}}
	networktest.Finds(t, quorum(sick), lease.Bad, "b knows no leader")
	networktest.Finds(t, alarms(sick), lease.Bad, "NOSPACE")
}

// Adding a key removes the keys that have been idle for long, and no others.
func TestIdleKeysAreForgotten(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var now networktest.Clock
	s := shifted(t, b, &now, 0)
	for _, key := range []string{"old", "older", "used"} {
		must.Succeed(t, s.Release(bounded(t), grant(t, s, request(key)), lease.Result{Ran: true}))
	}
	now.Advance(20 * 24 * time.Hour)
	must.Succeed(t, s.Release(bounded(t), grant(t, s, request("used")), lease.Result{Ran: true}))
	now.Advance(20 * 24 * time.Hour)
	b.put(t, prefix+"/lease/foreign", "x")
	grant(t, s, request("new"))
	keys, err := s.Keys(bounded(t))
	if err != nil || strings.Join(keys, " ") != "foreign new used" {
		t.Errorf("%q, %v", keys, err)
	}
	if n := b.count(t); n != "4" { // with the runs of the key used
		t.Errorf("%s keys are left", n)
	}
}
