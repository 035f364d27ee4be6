package observe

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestTextForm(t *testing.T) {
	var out strings.Builder
	log := NewLogger(&out, slog.LevelWarn, false).With(KeyAttr, "nightly")
	log.Info("unseen")
	log.Warn("trouble\x1b[2J\nfake: line", CureAttr, "mend\rit", "detail", 7)
	log.Error("end")
	want := "leaderrun: nightly: trouble?[2J?fake: line\n  mend?it\nleaderrun: nightly: end\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

func TestJSONForm(t *testing.T) {
	var out strings.Builder
	NewLogger(&out, slog.LevelWarn, true).With(KeyAttr, "nightly").Warn("trouble", CureAttr, "mend it")
	for _, part := range []string{`"msg":"trouble"`, `"key":"nightly"`, `"cure":"mend it"`, `"level":"WARN"`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%s lacks %s", out.String(), part)
		}
	}
}

// A reader of stderr that is stuck stops neither the run nor its end.
func TestStuckReader(t *testing.T) {
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
	if out.String() != "abc" {
		t.Errorf("%q", out.String())
	}
}

// A run tells of trouble, of its end, and of nothing else.
func TestRun(t *testing.T) {
	set := elect.Settings{Timing: elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second), Retry: 5 * time.Second, KillAfter: 10 * time.Second, StopSignal: 15}
	timeout := &lease.StoreError{Op: "renew", Err: errors.New("no answer in time"), Cure: "look at the network"}
	quiet := []elect.Event{
		{Kind: elect.Begin}, {Kind: elect.Granted}, {Kind: elect.Started}, {Kind: elect.Timer, At: 10 * time.Second},
		{Kind: elect.Renewed, At: 10 * time.Second, Sent: 10 * time.Second}, {Kind: elect.TreeGone, At: 11 * time.Second}, {Kind: elect.Released, At: 11 * time.Second},
	}
	leading := quiet[:4:4]
	tests := map[string]struct {
		wait   time.Duration
		events []elect.Event
		want   []string
	}{
		"success": {0, quiet, nil},
		"skip":    {0, []elect.Event{{Kind: elect.Begin}, {Kind: elect.Held}}, nil},
		"outage": {0, append(leading,
			elect.Event{Kind: elect.NoAnswer, At: 12 * time.Second, Err: timeout},
			elect.Event{Kind: elect.NoAnswer, At: 14 * time.Second, Err: timeout},
			elect.Event{Kind: elect.Renewed, At: 15 * time.Second, Sent: 15 * time.Second}),
			[]string{"renewal unanswered, the command is stopped in 9.2s unless the store answers: renew: no answer in time", "look at the network", "the store answers again"}},
		"reasserted": {0, append(leading, elect.Event{Kind: elect.Renewed, At: 10 * time.Second, Sent: 10 * time.Second, Lease: lease.Lease{Reasserted: true}}),
			[]string{"had vanished from the store and was put back", "eviction"}},
		"lost":    {0, append(leading, elect.Event{Kind: elect.LeaseLost, At: 11 * time.Second}), []string{"lease lost, stopping the command"}},
		"expired": {0, append(leading, elect.Event{Kind: elect.Timer, At: 22 * time.Second}), []string{"no renewal was answered in time, stopping"}},
		"stubborn": {0, append(leading, elect.Event{Kind: elect.Order, At: 11 * time.Second}, elect.Event{Kind: elect.Timer, At: 21 * time.Second}),
			[]string{"did not end within its grace, killing it"}},
		"leftovers": {0, append(leading, elect.Event{Kind: elect.CommandEnded, At: 11 * time.Second, Left: "process 7 (sleep)"}, elect.Event{Kind: elect.Timer, At: 12 * time.Second}),
			[]string{"left descendants alive, stopping them: process 7 (sleep)", "--leftovers wait"}},
		"away": {time.Minute, []elect.Event{{Kind: elect.Begin}, {Kind: elect.NoAnswer, Err: timeout}, {Kind: elect.Timer, At: 5 * time.Second},
			{Kind: elect.NoAnswer, At: 6 * time.Second, Err: timeout}, {Kind: elect.Timer, At: 11 * time.Second}, {Kind: elect.Held, At: 11 * time.Second, Remaining: time.Second}},
			[]string{"standing by without an answer from the store: renew: no answer in time", "look at the network", "the store answers again"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			sink := NewRun(NewLogger(&out, slog.LevelWarn, false))
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
