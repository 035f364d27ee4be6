package run

import (
	"errors"
	"io"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/schedule"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A run ends as its command ended.
func TestRunEnds(t *testing.T) {
	for _, tt := range []struct {
		script       string
		exit, signal int
	}{{"test -s $LEADERRUN_LEASE_FILE && exit 3", 3, -1}, {"exit 0", 0, -1}, {"kill -9 $$", -1, 9}} {
		r := newTrial(t, tt.script)
		if r.want(r.run(), candidate.Exited, tt.exit, tt.signal); r.stderr != "" {
			t.Errorf("it said:\n%s", r.stderr)
		}
	}
	r := newTrial(t, "")
	r.Path = filepath.Join(r.dir, "missing")
	r.want(r.run(), candidate.NotStarted, -1, -1)
}

// Descendants that outlive the command are stopped.
func TestRunStopsLeftovers(t *testing.T) {
	r := newTrial(t, "sleep 60 & exit 3")
	r.want(r.run(), candidate.LeftBehind, 3, -1)
	if !strings.Contains(r.stderr, "left descendants alive, stopping them") {
		t.Errorf("it said:\n%s", r.stderr)
	}
}

// A process that SIGKILL does not end is reported.
func TestUnkillable(t *testing.T) {
	var said strings.Builder
	p := process{log: observe.NewLogger(&said, slog.LevelWarn, observe.Form{})}
	p.report(runner.Report{Kind: runner.Unkillable, Left: "process 7 (dd)"}, func(e elect.Event) { t.Errorf("%+v", e) })
	if !strings.Contains(said.String(), "SIGKILL has no effect yet: process 7 (dd)\n  leaderrun goes on killing") {
		t.Errorf("it said:\n%s", &said)
	}
}

// What the guard killed at kill-by was not ended by anybody else.
func TestExpiredTree(t *testing.T) {
	var got elect.Event
	process{}.report(runner.Report{Kind: runner.Gone, Expired: true}, func(e elect.Event) { got = e })
	if got.Kind != elect.TreeGone || !got.Expired {
		t.Errorf("%+v", got)
	}
}

// A verb creates no store, and a run reports what is wrong with the address.
func TestStoreOfARun(t *testing.T) {
	c := settings.Default()
	c.Store = "file:" + filepath.Join(t.TempDir(), "store")
	if _, err := OpenExisting(c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a verb finds a store: %v", err)
	}
	c.Store = "nonsense"
	if _, err := Run(c, slog.New(slog.DiscardHandler), nil, nil); err == nil {
		t.Error("a run has an address that is none")
	}
}

// Signals reach the command, and an order to stop stops it.
func TestSignals(t *testing.T) {
	const script = `trap 'echo USR1 >>$DIR/got' USR1; trap 'echo HUP >>$DIR/got' HUP; trap 'echo QUIT >>$DIR/got' QUIT; trap 'echo TERM >>$DIR/got; exit 5' TERM
echo ready >>$DIR/got; while :; do sleep 0.01; done`
	r := newTrial(t, script)
	r.start()
	r.await("got", "ready")
	for _, s := range []struct {
		syscall.Signal
		says string
	}{{syscall.SIGUSR1, "USR1"}, {syscall.SIGHUP, "HUP"}, {syscall.SIGQUIT, "QUIT"}, {syscall.SIGTERM, "TERM"}} {
		r.signal(s.Signal)
		r.await("got", s.says)
	}
	r.want(r.end(), candidate.Ordered, 5, -1)
	if got := r.file("got"); got != "ready\nUSR1\nHUP\nQUIT\nTERM\n" {
		t.Errorf("it got:\n%s", got)
	}
}

// A signal that leaderrun's caller ignores, as nohup does, is not passed on.
func TestIgnoredSignal(t *testing.T) {
	r := newTrial(t, `trap 'echo HUP >>$DIR/got' HUP; trap 'echo USR1 >>$DIR/got' USR1; echo ready >$DIR/got; while :; do sleep 0.01; done`)
	r.through = []string{"/bin/sh", "-c", `trap '' HUP; exec "$0"`}
	r.start()
	r.await("got", "ready")
	r.signal(syscall.SIGHUP)
	r.signal(syscall.SIGUSR1)
	r.await("got", "USR1")
	r.signal(syscall.SIGTERM)
	r.want(r.end(), candidate.Ordered, -1, int(syscall.SIGTERM))
	if got := r.file("got"); got != "ready\nUSR1\n" {
		t.Errorf("it got:\n%s", got)
	}
}

// A host that is not eligible does not ask.
func TestEligible(t *testing.T) {
	r := newTrial(t, "exit 0")
	r.Eligible = []string{"sh", "-c", "echo $LEADERRUN_KEY >$DIR/asked; exit 1"}
	if o := r.run(); o.Outcome == candidate.Exited || r.file("asked") != "k\n" {
		t.Errorf("%+v, asked for %q", o, r.file("asked"))
	}
	r = newTrial(t, "exit 0")
	r.Eligible = []string{"true"}
	r.want(r.run(), candidate.Exited, 0, -1)
	r = newTrial(t, "exit 0")
	r.Eligible = []string{"/no/such/program"}
	if o := r.run(); o.Outcome == candidate.Exited || !strings.Contains(CheckEligible(&r.Config).Error(), "cannot be run") {
		t.Errorf("%+v", o)
	}
	for _, well := range [][]string{nil, {"sh"}} {
		if err := CheckEligible(&settings.Config{Eligible: well}); err != nil {
			t.Error(err)
		}
	}
}

// A candidate with --wait has a guard ready; one without has none yet.
func TestGuardIsReady(t *testing.T) {
	for _, wait := range []time.Duration{0, candidate.Forever} {
		r := newTrial(t, "exit 0")
		r.Wait = wait
		r.Eligible = []string{"sh", "-c", "cat /proc/$PPID/task/*/children >$DIR/children"}
		r.run()
		want := 1 // the check itself
		if wait > 0 {
			want = 2
		}
		if children := strings.Fields(r.file("children")); len(children) != want {
			t.Errorf("with a wait of %s the children are %q", wait, children)
		}
	}
}

// A run closes its connections.
func TestRunClosesTheStore(t *testing.T) {
	server := miniredis.RunT(t)
	c := newTrial(t, "").Config
	c.Store = "redis://" + server.Addr()
	must.Succeed(t, c.Validate())
	log := slog.New(slog.DiscardHandler)
	s, err := OpenExisting(c, log)
	must.Succeed(t, err)
	for _, err = s.Acquire(t.Context(), lease.Request{Key: c.Key, Holder: NewHolder(), TTL: time.Hour}); errors.As(err, new(*lease.SettlingError)); {
		_, err = s.Acquire(t.Context(), lease.Request{Key: c.Key, Holder: NewHolder(), TTL: time.Hour})
	}
	must.Succeed(t, errors.Join(err, s.Close()))
	defer signal.Reset() // which the run has caught
	result, err := Run(c, log, observe.NewLine(io.Discard, c.Key, func() bool { return false }), nil)
	if err != nil || result.Outcome != candidate.Denied {
		t.Errorf("%s, %v", result.Outcome, err)
	}
	for late := time.Now().Add(20 * time.Second); server.CurrentConnectionCount() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d connections are open", server.CurrentConnectionCount())
		}
	}
}

// The tick of a run: from --tick, from a schedule, from both, or the store's time.
func TestTickAt(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixMilli()
	daily, err := schedule.Parse("CRON_TZ=UTC 0 12 * * *")
	must.Succeed(t, err)
	const hour, day = 3_600_000, 24 * time.Hour
	if TickAt(settings.Config{OncePer: day}) != nil {
		t.Error("a period's tick is not the store's time")
	}
	if tick := TickAt(settings.Config{OncePer: day, Tick: noon})(1); tick.At != noon || tick.Period != day {
		t.Errorf("by name: %+v", tick)
	}
	if tick := TickAt(settings.Config{Schedule: daily})(noon + hour); tick.At != noon || tick.Period != day || tick.From == 0 || tick.Until <= noon {
		t.Errorf("by schedule: %+v", tick)
	}
	if tick := TickAt(settings.Config{Schedule: daily, Tick: noon + hour})(1); tick.At != noon || tick.Period != day || tick.From != 0 || tick.Until != 0 {
		t.Errorf("by both: %+v", tick)
	}
	if tick := TickAt(settings.Config{Schedule: daily, Tick: 1})(noon); tick.At >= 1 {
		t.Errorf("in 1970: %+v", tick)
	}
}

// The store shows the command's name, unless it is too long.
func TestMeta(t *testing.T) {
	const around = len(`{"command":""}`)
	for n, want := range map[int]int{10: 10 + around, 4096 - around: 4096, 4096 - around + 1: len("{}")} {
		if got := meta(settings.Config{Command: []string{strings.Repeat("x", n), "s3cret"}}); len(got) != want || strings.Contains(got, "s3cret") {
			t.Errorf("of %d: %d bytes, want %d", n, len(got), want)
		}
	}
}
