package report

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Every sentence of why, and the command it proposes.
func TestDiagnosis(t *testing.T) {
	const db1, db2 = "db1/4711/0123456789abcdef0123456789abcdef", "db2/99/fedcba9876543210fedcba9876543210"
	t.Setenv("TZ", "UTC")
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	const day, minute = 24 * time.Hour, time.Minute
	three := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).UnixMilli()
	at := func(d time.Duration) int64 { return three + d.Milliseconds() }
	run := func(start, took time.Duration, exit int) lease.Run {
		return lease.Run{Token: at(start), Tick: at(start), Start: at(start), End: at(start + took), Exit: exit, Host: "db2", Holder: db2}
	}
	ended := func(exit int, why candidate.Outcome) lease.Status {
		r := run(0, minute, exit)
		r.Outcome = string(why)
		return lease.Status{Now: at(time.Hour), Runs: []lease.Run{r}}
	}
	vanished := run(0, 0, 0)
	vanished.Vanished, vanished.End = true, at(30*time.Second)
	nights := []lease.Run{run(-day, 5*minute, 0), run(-2*day, 4*minute, 0), run(-3*day, 5*minute, 0)}
	held := func(since time.Duration, runs ...lease.Run) lease.Status {
		return lease.Status{Why: lease.Held, Value: db1, Holder: db1, Since: at(-since), Now: three, Remaining: 20 * time.Second, Runs: runs}
	}
	asked := held(minute)
	asked.HandOver = true
	pause := lease.Pause{Since: three, Until: at(2 * time.Hour), By: "ann@db1", Reason: "upgrade"}
	pausedHeld := held(minute)
	pausedHeld.Pause = pause
	night := func(now time.Duration, candidates ...lease.Candidate) lease.Status {
		return lease.Status{Now: at(now), ServedTick: three, Period: day, Runs: []lease.Run{run(0, 5*minute, 0)}, Candidates: candidates}
	}
	came := func(host string, last time.Duration) lease.Candidate {
		return lease.Candidate{Host: host, First: at(-9 * day), Last: at(last)}
	}
	pod := lease.Candidate{Host: "pod-x7", First: at(-4 * day), Last: at(-4*day + minute)}
	friday := night(2*time.Hour, came("db2", 0), came("db3", -day)) // the next tick is far away
	friday.Period = 3 * day
	busy := held(2*day, nights...)
	busy.Period, busy.Candidates = day, []lease.Candidate{came("db2", 0), came("db1", -2*day), came("db3", -2*day)}
	// A service that was deployed every ten days and has no leader since.
	service := []lease.Run{run(-10*day, 10*day-time.Hour, 0), run(-20*day, 10*day-minute, 143), run(-30*day, 10*day-2*minute, 143), run(-40*day, 10*day-minute, 143)}
	jobs := []lease.Run{run(-time.Hour, minute, 0), run(-2*time.Hour, minute, 0), run(-3*time.Hour, minute, 0), run(-4*time.Hour, minute, 0)}
	for _, row := range []struct {
		status lease.Status
		well   bool
		want   string
	}{
		{held(12 * minute), true, "held | db1 has led for 12m | leaderrun status"},
		{held(12*minute, nights...), true, "held | db1 has led for 12m | leaderrun status"},
		{held(7*time.Hour, nights...), false, "long | db1 has led for 7h, the runs before took 5m at most | leaderrun release"},
		{held(7*time.Hour, nights[:2]...), true, "held | db1 has led for 7h | leaderrun status"},
		{asked, true, "held | db1 has led for 1m and was asked to hand over | leaderrun status"},
		{lease.Status{Why: lease.Cooldown, Remaining: minute, Now: three}, true, "cooldown | the minimum hold of the last run goes on for another 1m | leaderrun status"},
		{lease.Status{Why: lease.Cooldown, Remaining: minute, Now: three, Runs: []lease.Run{run(-minute, minute, 0)}}, true,
			"succeeded | ran on db2 and succeeded at 2026-11-21 03:00:00 UTC (0s ago), it took 1m; the minimum hold of the last run goes on for another 1m | leaderrun history"},
		{lease.Status{Why: lease.Revoked, Holder: db1, Value: "revoked:" + db1, Remaining: 20 * time.Second}, false,
			"revoked | the lease was taken from db1, which has 20s to stop its command | leaderrun status"},
		{lease.Status{Why: lease.Foreign, Value: "x"}, false,
			`foreign | the key holds "x", which leaderrun did not write: nobody is granted it; if no other program needs that, delete it | leaderrun release --force --now`},
		{lease.Status{Now: three, Pause: pause, Runs: nights}, false, "paused | paused until 2026-11-21 05:00:00 UTC (2h left) by ann@db1: upgrade | leaderrun resume"},
		{pausedHeld, false, "paused | paused until 2026-11-21 05:00:00 UTC (2h left) by ann@db1: upgrade; db1 leads and goes on | leaderrun resume"},
		{lease.Status{Now: three}, false, "never | nobody has ever led under this key; leaderrun status lists all keys | leaderrun doctor"},
		{lease.Status{Now: three, Token: 5}, false, "never | nobody leads, and no run is known | leaderrun doctor"},
		{lease.Status{Now: three, Token: 5, Holder: db1, Since: at(-time.Hour)}, false,
			"vanished | db1 vanished: it led from 2026-11-21 02:00:00 UTC on, its lease ran out, and nobody has led since; its host or leaderrun died, or the store was out of its reach | leaderrun status"},
		{lease.Status{Now: at(time.Hour), Runs: []lease.Run{vanished}}, false, "vanished | db2 vanished with the run that began 2026-11-21 03:00:00 UTC: its host or leaderrun died, or the store was out of its reach | leaderrun history"},
		{ended(lease.ExitVoid, candidate.Lost), false, "lost | ran on db2 and lost its lease at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(lease.ExitVoid, candidate.Expired), false, "lost | ran on db2 and could not renew its lease in time at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(lease.ExitVoid, candidate.Exited), false, "failed | ran on db2 and failed with 76 at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(0, candidate.Exited), true, "succeeded | ran on db2 and succeeded at 2026-11-21 03:01:00 UTC (59m ago), it took 1m | leaderrun history"},
		{ended(143, candidate.Exited), false, "stopped | ran on db2 and was ended by signal 15 at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(143, candidate.Ordered), false, "stopped | ran on db2 and was stopped by a signal to leaderrun at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(143, candidate.HandedOver), false, "stopped | ran on db2 and was stopped by an operator's release at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(143, candidate.Unfit), false, "stopped | ran on db2 and was stopped because --eligible failed there at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(143, candidate.MaxRuntime), false, "stopped | ran on db2 and was stopped after its --max-runtime at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(0, candidate.MaxRuntime), false, "stopped | ran on db2 and was stopped after its --max-runtime at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(137, candidate.GuardDied), false, "stopped | ran on db2 and was killed with its guard at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{ended(137, lease.OutcomeKilled), false, "stopped | ran on db2 and was killed with leaderrun itself at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{lease.Status{Now: at(time.Hour), Runs: []lease.Run{run(0, 5*minute, 0)}}, true,
			"succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (55m ago), it took 5m | leaderrun history"},
		{lease.Status{Now: at(time.Hour), ServedTick: three, Period: day, Starts: 1, Runs: []lease.Run{run(0, 5*minute, 0)}}, true,
			"succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (55m ago), it took 5m; the tick of 2026-11-21 03:00:00 UTC is served, the next is due 2026-11-22 03:00:00 UTC | leaderrun history"},
		{lease.Status{Now: at(day + 15*minute), ServedTick: three, Period: day, Runs: []lease.Run{run(0, 5*minute, 3)}}, false,
			"failed | ran on db2 and failed with 3 at 2026-11-21 03:05:00 UTC (1d ago) | leaderrun history"},
		{lease.Status{Now: at(day + 16*minute), Period: day, Runs: []lease.Run{run(0, 5*minute, 3)}}, false,
			"overdue | nothing has run since 2026-11-21 03:00:00 UTC: expected again after 24h, due 16m ago; the last run: ran on db2 and failed with 3 at 2026-11-21 03:05:00 UTC (1d ago) | leaderrun doctor"},
		{lease.Status{Now: at(time.Hour), Period: day, Starts: 2, Tries: 2, Runs: []lease.Run{run(minute, 2*minute, 3), run(0, minute, 3), run(-day, minute, 3)}}, false,
			"failed | ran on db2 and failed with 3, 2 times in a row, the last time at 2026-11-21 03:03:00 UTC (57m ago); starts for its tick: 2, and --tries allows no more | leaderrun history"},
		// '0 9,12 * * *': the tick of 12 is 21 h before the next, and not the one of 9.
		{lease.Status{Now: at(time.Hour), Period: 21 * time.Hour, Starts: 1, Tries: 2, Runs: []lease.Run{run(0, minute, 3), run(-3*time.Hour, minute, 3)}}, false,
			"failed | ran on db2 and failed with 3 at 2026-11-21 03:01:00 UTC (59m ago); starts for its tick: 1 | leaderrun history"},
		{lease.Status{Now: at(time.Hour), Runs: []lease.Run{run(minute, 2*minute, 3), run(0, minute, 3)}}, false,
			"failed | ran on db2 and failed with 3 at 2026-11-21 03:03:00 UTC (57m ago) | leaderrun history"},
		{lease.Status{Now: at(time.Hour), Runs: []lease.Run{run(0, minute, 143)}}, false,
			"stopped | ran on db2 and was ended by signal 15 at 2026-11-21 03:01:00 UTC (59m ago) | leaderrun history"},
		{lease.Status{Now: three, Runs: service}, false,
			"idle | nobody has led for 1h, between the runs before for 2m at most: no host asks for the key, or none is eligible; the last run: ran on db2 and succeeded at 2026-11-21 02:00:00 UTC (1h ago), it took 9d23h | on db2: leaderrun doctor"},
		{lease.Status{Now: at(-55 * minute), Runs: service}, true, "succeeded | ran on db2 and succeeded at 2026-11-21 02:00:00 UTC (5m ago), it took 9d23h | leaderrun history"},
		{lease.Status{Now: three, Runs: service[:3]}, true, "succeeded | ran on db2 and succeeded at 2026-11-21 02:00:00 UTC (1h ago), it took 9d23h | leaderrun history"},
		{lease.Status{Now: at(5 * day), Runs: jobs}, true, "succeeded | ran on db2 and succeeded at 2026-11-21 02:01:00 UTC (5d ago), it took 1m | leaderrun history"},
		// Hosts that used to come. Not missing: one that may only be late, one that is busy, a pod.
		{friday, true, "succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (1h55m ago), it took 5m; the tick of 2026-11-21 03:00:00 UTC is served, the next is due 2026-11-24 03:00:00 UTC; db3 has not come since 2026-11-20 03:00:00 UTC (1d2h) | on db3: leaderrun doctor"},
		{night(2*time.Hour, came("db2", 0), came("db3", -3*day), pod), true,
			"succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (1h55m ago), it took 5m; the tick of 2026-11-21 03:00:00 UTC is served, the next is due 2026-11-22 03:00:00 UTC; db3 has not come since 2026-11-18 03:00:00 UTC (3d2h) | on db3: leaderrun doctor"},
		{night(2*time.Hour, came("db2", 0), came("db3", -day), came("db4", -2*day), came("db5", -3*day), came("db6", -4*day)), true,
			"succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (1h55m ago), it took 5m; the tick of 2026-11-21 03:00:00 UTC is served, the next is due 2026-11-22 03:00:00 UTC; db3 has not come since 2026-11-20 03:00:00 UTC (1d2h), db4 has not come since 2026-11-19 03:00:00 UTC (2d2h), db5 has not come since 2026-11-18 03:00:00 UTC (3d2h), and 1 more | on db3: leaderrun doctor"},
		{night(2*time.Hour, came("db2", 0), came("db3", -13*time.Hour)), true, "succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (1h55m ago), it took 5m; the tick of 2026-11-21 03:00:00 UTC is served, the next is due 2026-11-22 03:00:00 UTC | leaderrun history"},
		{night(time.Hour, came("db2", 0), came("db3", -3*day)), true, "succeeded | ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (55m ago), it took 5m; the tick of 2026-11-21 03:00:00 UTC is served, the next is due 2026-11-22 03:00:00 UTC | leaderrun history"},
		{busy, false, "long | db1 has led for 2d, the runs before took 5m at most; db3 has not come since 2026-11-19 03:00:00 UTC (2d) | leaderrun release"},
		{night(2*day, came("db2", 0)), false,
			"overdue | nothing has run since 2026-11-21 03:00:00 UTC: expected again after 24h, due 1d ago; nobody has come since 2026-11-21 03:00:00 UTC; the last run: ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (1d23h ago), it took 5m | on db2: leaderrun doctor"},
		{night(2*day, came("db2", day)), false,
			"overdue | nothing has run since 2026-11-21 03:00:00 UTC: expected again after 24h, due 1d ago; db2 came at 2026-11-22 03:00:00 UTC and ran nothing; the last run: ran on db2 and succeeded at 2026-11-21 03:05:00 UTC (1d23h ago), it took 5m | on db2: leaderrun doctor"},
	} {
		row.status.Key = "k"
		d := Diagnose(row.status)
		if got := d.Reason + " | " + d.Text + " | " + strings.TrimSuffix(d.Command(), " --key k"); got != row.want || d.Well != row.well || d.Key != "k" {
			t.Errorf("well %t, want %t\n got %s\nwant %s", d.Well, row.well, got, row.want)
		}
	}
}
