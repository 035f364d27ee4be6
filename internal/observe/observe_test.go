package observe

import (
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestTextForm(t *testing.T) {
	var out strings.Builder
	log := NewLogger(&out, slog.LevelWarn, Form{}).With(KeyAttr, "nightly")
	log.Info("unseen")
	log.Warn("trouble\x1b[2J\nfake: line", HintAttr, "mend\rit", "detail", 7)
	log.Error("end")
	want := "leaderrun: nightly: trouble?[2J?fake: line\n  mend?it\nleaderrun: nightly: end\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

// Who reads it in a mail, in a file or in a pod's log wants to know when; on a terminal and in
// the journal it shows.
func TestTimeOfRecords(t *testing.T) {
	for _, test := range []struct {
		level slog.Level
		form  Form
		want  string
	}{
		{slog.LevelWarn, Form{}, `^leaderrun: trouble\n$`},
		{slog.LevelWarn, Form{Dated: true}, `^leaderrun: 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d trouble\n$`},
		{slog.LevelWarn, Form{Dated: true, Journal: true}, `^<4>leaderrun: trouble\n$`},
		{slog.LevelInfo, Form{}, `^leaderrun: \d\d:\d\d:\d\d\.\d{3} trouble\n$`},
		{slog.LevelInfo, Form{Dated: true}, `^leaderrun: 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} trouble\n$`},
	} {
		var out strings.Builder
		NewLogger(&out, test.level, test.form).Warn("trouble")
		if !regexp.MustCompile(test.want).MatchString(out.String()) {
			t.Errorf("%+v: %q, want %s", test.form, out.String(), test.want)
		}
	}
}

// A blocked reader of stderr delays neither the run nor its end.
func TestStuckReader(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe() // nobody reads
	defer r.Close()
	q := NewWriter(w)
	done := make(chan struct{})
	go func() {
		for range 10_000 {
			_, _ = q.Write([]byte("line\n"))
		}
		q.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the writer is held up by its reader")
	}
}

func TestWriterKeepsOrderAndFlushes(t *testing.T) {
	var out strings.Builder
	q := NewWriter(&out)
	for _, s := range []string{"a", "b", "c"} {
		_, _ = q.Write([]byte(s))
	}
	q.Close()
	_, _ = q.Write([]byte("late"))
	if out.String() != "abc" {
		t.Errorf("%q", out.String())
	}
}

// At the default level a run logs only problems.
func TestRun(t *testing.T) {
	set := elect.Settings{Timing: elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second), Retry: 5 * time.Second, KillAfter: 10 * time.Second, StopSignal: 15}
	timeout := &lease.StoreError{Op: "renew", Err: errors.New("no answer in time"), Hint: "look at the network"}
	quiet := []elect.Event{
		{Kind: elect.Begin}, {Kind: elect.Granted}, {Kind: elect.Started}, {Kind: elect.Timer, At: 10 * time.Second},
		{Kind: elect.Renewed, At: 10 * time.Second, Sent: 10 * time.Second}, {Kind: elect.TreeGone, At: 11 * time.Second}, {Kind: elect.Released, At: 11 * time.Second},
	}
	leading := quiet[:4:4]
	// ending is a run that ends after 22 s. Its release fails twice and is given up.
	ending := func(granted lease.Lease, exit int, givenUp time.Duration, why ...elect.Event) []elect.Event {
		failure := &lease.StoreError{Op: "release", Err: errors.New("connection refused"), Hint: "start it"}
		events := append([]elect.Event{{Kind: elect.Begin}, {Kind: elect.Granted, Lease: granted}, {Kind: elect.Started}}, why...)
		return append(events, elect.Event{Kind: elect.TreeGone, At: 22 * time.Second, Exit: candidate.Exit{Code: exit}},
			elect.Event{Kind: elect.ReleaseFailed, At: 23 * time.Second, Err: failure}, elect.Event{Kind: elect.Timer, At: 24 * time.Second},
			elect.Event{Kind: elect.ReleaseFailed, At: givenUp, Err: failure})
	}
	plain := lease.Lease{TTL: 30 * time.Second}
	ticking := lease.Lease{TTL: 30 * time.Second, Period: 24 * time.Hour}
	tests := map[string]struct {
		wait   time.Duration
		events []elect.Event
		want   []string
	}{
		"success": {0, quiet, nil},
		"skip":    {0, []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held}}}, nil},
		"outage": {0, append(leading,
			elect.Event{Kind: elect.NoAnswer, At: 12 * time.Second, Err: timeout},
			elect.Event{Kind: elect.NoAnswer, At: 14 * time.Second, Err: timeout},
			elect.Event{Kind: elect.Renewed, At: 15 * time.Second, Sent: 15 * time.Second}),
			[]string{"renewal failed, the command is stopped in 9.2s unless one succeeds: renew: no answer in time", "look at the network", "the lease is renewed again"}},
		"an outage with another cause": {0, append(leading,
			elect.Event{Kind: elect.NoAnswer, At: 12 * time.Second, Err: timeout},
			elect.Event{Kind: elect.NoAnswer, At: 14 * time.Second, Err: errors.New("wrong password")},
			elect.Event{Kind: elect.NoAnswer, At: 15 * time.Second, Err: timeout},
			elect.Event{Kind: elect.Renewed, At: 16 * time.Second, Sent: 16 * time.Second},
			elect.Event{Kind: elect.NoAnswer, At: 28 * time.Second, Err: timeout}),
			[]string{"9.2s unless one succeeds: renew: no answer in time", "look at the network", "7.2s unless one succeeds: wrong password", "the lease is renewed again", "unless one succeeds: renew: no answer in time", "look at the network"}},
		"reasserted": {0, append(leading, elect.Event{Kind: elect.Renewed, At: 10 * time.Second, Sent: 10 * time.Second, Lease: lease.Lease{Reasserted: true}}),
			[]string{"had gone from the store and was put back", "the clock of the store's host was set, a restart of the store without its data, a person, a clean-up, or in Redis an eviction"}},
		"lost": {0, append(leading, elect.Event{Kind: elect.LeaseLost, At: 11 * time.Second}), []string{"lease lost, stopping the command"}},
		"taken, and not noticed": {0, append(quiet[:6:6], elect.Event{Kind: elect.Released, At: 11 * time.Second, Err: lease.ErrLost}),
			[]string{"the lease was not ours any more when the command ended: another one may have run beside it", "release --force --now"}},
		"lost, and released": {0, append(leading, elect.Event{Kind: elect.LeaseLost, At: 11 * time.Second}, elect.Event{Kind: elect.TreeGone, At: 12 * time.Second}, elect.Event{Kind: elect.Released, At: 12 * time.Second, Err: lease.ErrLost}),
			[]string{"lease lost, stopping the command"}},
		"expired": {0, append(leading, elect.Event{Kind: elect.NoAnswer, At: 12 * time.Second, Err: timeout}, elect.Event{Kind: elect.Timer, At: 22 * time.Second}),
			[]string{"renewal failed", "look at the network", "giving up the lease, stopping the command: renew: no answer in time"}},
		"asleep": {0, append(leading, elect.Event{Kind: elect.Timer, At: 22 * time.Second}),
			[]string{"giving up the lease, stopping the command: leaderrun itself was stopped, starved, or asleep with the machine"}},
		"not released": {0, ending(plain, 0, 25*time.Second),
			[]string{"the lease could not be released, others may have to wait up to 30s for its end: release: connection refused", "start it"}},
		"not released, and over anyway": {0, ending(plain, 0, 30*time.Second), nil},
		"not released, and lost anyway": {0, ending(plain, 0, 25*time.Second, elect.Event{Kind: elect.LeaseLost}),
			[]string{"lease lost, stopping the command"}},
		"not released, and expired anyway": {0, ending(plain, 0, 25*time.Second, elect.Event{Kind: elect.Timer, At: 22 * time.Second}),
			[]string{"giving up the lease"}},
		"success not recorded": {0, ending(ticking, 0, 30*time.Second),
			[]string{"the success could not be recorded, another host may run this tick again: release: connection refused", "start it"}},
		"failure not recorded": {0, ending(ticking, 1, 25*time.Second),
			[]string{"the lease could not be released, others may have to wait up to 30s for its end", "start it"}},
		"stubborn": {0, append(leading, elect.Event{Kind: elect.Order, At: 11 * time.Second}, elect.Event{Kind: elect.Timer, At: 21 * time.Second}),
			[]string{"did not end within its grace, killing it"}},
		"leftovers": {0, append(leading, elect.Event{Kind: elect.CommandEnded, At: 11 * time.Second, Left: "process 7 (sleep)"}, elect.Event{Kind: elect.Timer, At: 12 * time.Second}),
			[]string{"left descendants alive, stopping them: process 7 (sleep)", "--leftovers wait"}},
		"away": {time.Minute, []elect.Event{{Kind: elect.Begin}, {Kind: elect.NoAnswer, Err: timeout}, {Kind: elect.Timer, At: 5 * time.Second},
			{Kind: elect.NoAnswer, At: 6 * time.Second, Err: timeout}, {Kind: elect.Timer, At: 11 * time.Second}, {Kind: elect.Denied, At: 11 * time.Second, Denial: lease.Condition{Why: lease.Held, Remaining: time.Second}}},
			[]string{"standing by, but the store cannot be used: renew: no answer in time", "look at the network", "the store can be used again"}},
		"a proxy cuts the wait": {time.Minute, []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held, Remaining: time.Minute}}, {Kind: elect.NoAnswer, At: time.Second, Err: timeout},
			{Kind: elect.Timer, At: 6 * time.Second}, {Kind: elect.Denied, At: 6 * time.Second, Denial: lease.Condition{Why: lease.Held, Remaining: time.Minute}}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			sink := NewRun(NewLogger(&out, slog.LevelWarn, Form{}), true)
			set.Wait = test.wait
			state := elect.New(set)
			for _, e := range test.events {
				next, actions := elect.Step(state, e)
				sink.Observe(campaign.Transition{From: state, Event: e, To: next, Actions: actions})
				state = next
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(test.want) {
				t.Fatalf("said\n%s\nwant %d lines", out.String(), len(test.want))
			}
			for i, part := range test.want {
				if !strings.Contains(lines[i], part) {
					t.Errorf("line %q lacks %q", lines[i], part)
				}
			}
		})
	}
}
