package run

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/leaderrun/leaderrun/internal/campaign"
	_ "github.com/leaderrun/leaderrun/internal/early"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/schedule"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// asLeaderrun has the program of these tests be a leaderrun with the settings that it
// holds, without the command line.
const asLeaderrun = "RUN_AS_LEADERRUN"

func TestMain(m *testing.M) {
	text := os.Getenv(asLeaderrun)
	if text == "" {
		_, _ = syscall.Setsid() // without a terminal; only the leader of a process group may not
		os.Exit(m.Run())
	}
	var c settings.Config
	err := json.Unmarshal([]byte(text), &c)
	_ = os.Unsetenv(asLeaderrun)
	var result campaign.Result
	if err == nil {
		line := observe.NewLine(os.Stderr, c.Key, true)
		status := func(r campaign.Result, _ settings.Config) int { return 40 + r.Exit.Code }
		result, err = Run(c, observe.NewLogger(line, slog.LevelWarn, observe.Form{}), line, status)
	}
	if err == nil {
		err = WriteOutcomeFile(c, result)
	}
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error())
		os.Exit(125)
	}
	os.Exit(0)
}

// trial is a run in a process of its own, in a directory of its own.
type trial struct {
	*testing.T
	settings.Config
	dir    string
	env    []string
	stdout *os.File // nil: as stderr
	// through is a command that starts it.
	through []string
	cmd     *exec.Cmd
	stderr  string
}

// newTrial is a run of a shell script with a file store. DIR is its directory.
func newTrial(t *testing.T, script string) *trial {
	t.Helper()
	r := &trial{T: t, Config: settings.Default(), dir: t.TempDir()}
	r.Key, r.Store = "k", "file:"+filepath.Join(r.dir, "store")
	r.Command, r.Path = []string{"sh", "-c", script}, "/bin/sh"
	r.OutcomeFile = filepath.Join(r.dir, "outcome")
	return r
}

func (r *trial) start() {
	r.Helper()
	if err := r.Validate(); err != nil {
		r.Fatal(err)
	}
	text, err := json.Marshal(r.Config)
	if err != nil {
		r.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	words := append(r.through, self)
	r.cmd = exec.Command(words[0], words[1:]...)
	r.cmd.Env = append(append(os.Environ(), asLeaderrun+"="+string(text), "DIR="+r.dir, "XDG_RUNTIME_DIR="+r.dir), r.env...)
	stderr, err := os.Create(filepath.Join(r.dir, "stderr"))
	if err != nil {
		r.Fatal(err)
	}
	defer stderr.Close()
	r.cmd.Stderr, r.cmd.Stdout = stderr, stderr
	if r.stdout != nil {
		r.cmd.Stdout = r.stdout
	}
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = r.cmd.Process.Kill() })
}

// end waits for the end and returns what the outcome file says.
func (r *trial) end() outcome {
	r.Helper()
	limit := time.AfterFunc(20*time.Second, func() { _ = r.cmd.Process.Kill() })
	defer limit.Stop()
	err := r.cmd.Wait()
	r.stderr = r.file("stderr")
	var o outcome
	if json.Unmarshal([]byte(r.file("outcome")), &o) != nil || err != nil {
		r.Fatalf("%v, outcome %q, it said:\n%s", err, r.file("outcome"), r.stderr)
	}
	return o
}

func (r *trial) run() outcome {
	r.Helper()
	r.start()
	return r.end()
}

// file is what a file of the directory contains; "" if there is none.
func (r *trial) file(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(text)
}

// await waits until a file says something.
func (r *trial) await(name, want string) {
	r.Helper()
	for late := time.Now().Add(20 * time.Second); !regexp.MustCompile(want).MatchString(r.file(name)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			r.Fatalf("%s does not say %q, but %q; stderr:\n%s", name, want, r.file(name), r.file("stderr"))
		}
	}
}

func (r *trial) signal(s syscall.Signal) {
	r.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

func (r *trial) want(o outcome, why elect.Outcome, exit, signal int) {
	r.Helper()
	one := func(p *int) int {
		if p == nil {
			return -1
		}
		return *p
	}
	if o.Outcome != string(why) || one(o.ChildExit) != exit || one(o.ChildSignal) != signal {
		r.Errorf("%s, exit %d, signal %d; want %s, %d, %d; it said:\n%s", o.Outcome, one(o.ChildExit), one(o.ChildSignal), why, exit, signal, r.stderr)
	}
}

// The command's end is the run's, whichever it is.
func TestRunEnds(t *testing.T) {
	for _, tt := range []struct {
		script       string
		exit, signal int
	}{{"test -s $LEADERRUN_LEASE_FILE && exit 3", 3, -1}, {"exit 0", 0, -1}, {"kill -9 $$", -1, 9}} {
		r := newTrial(t, tt.script)
		if r.want(r.run(), elect.Exited, tt.exit, tt.signal); r.stderr != "" {
			t.Errorf("it said:\n%s", r.stderr)
		}
	}
	r := newTrial(t, "")
	r.Path = filepath.Join(r.dir, "missing")
	r.want(r.run(), elect.NotStarted, -1, -1)
}

// What the command leaves behind is stopped.
func TestRunStopsLeftovers(t *testing.T) {
	r := newTrial(t, "sleep 60 & exit 3")
	r.want(r.run(), elect.LeftBehind, 3, -1)
	if !strings.Contains(r.stderr, "left descendants alive, stopping them") {
		t.Errorf("it said:\n%s", r.stderr)
	}
}

// A process that SIGKILL does not end is spoken of.
func TestUnkillable(t *testing.T) {
	var said strings.Builder
	p := process{file: &leaseFile{log: observe.NewLogger(&said, slog.LevelWarn, observe.Form{})}}
	p.report(runner.Report{Kind: runner.Unkillable, Left: "process 7 (dd)"}, func(e elect.Event) { t.Errorf("%+v", e) })
	if !strings.Contains(said.String(), "SIGKILL has no effect yet: process 7 (dd)\n  leaderrun goes on killing") {
		t.Errorf("it said:\n%s", &said)
	}
}

// A verb makes no store, and a run says what is wrong with its address.
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

// Signals reach the command, and an order stops it.
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
	r.want(r.end(), elect.Ordered, 5, -1)
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
	r.want(r.end(), elect.Ordered, -1, int(syscall.SIGTERM))
	if got := r.file("got"); got != "ready\nUSR1\n" {
		t.Errorf("it got:\n%s", got)
	}
}

// leaderrun keeps neither end of the command's pipes: who reads its output sees its end.
// A run that rejoins keeps them for the next command.
func TestOutputIsTheCommands(t *testing.T) {
	for _, rejoin := range []bool{false, true} {
		r := newTrial(t, `exec >&- 2>&-; echo closed >$DIR/closed; exec sleep 60`)
		if r.Rejoin = rejoin; rejoin {
			r.Wait = elect.Forever
		}
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		ended := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, read); close(ended) }()
		r.stdout = write
		r.start()
		_ = write.Close()
		r.await("closed", "closed")
		if rejoin {
			select {
			case <-ended:
				t.Error("a run that rejoins has lost its output")
			case <-time.After(100 * time.Millisecond):
			}
		} else {
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the output does not end with the command's")
			}
		}
		r.signal(syscall.SIGTERM)
		r.end()
	}
}

// Each hook is run with what it has to know, when its event comes.
func TestHooks(t *testing.T) {
	hook := func(name string) []string {
		return []string{"sh", "-c", `env | grep ^LEADERRUN_ | grep -v TOKEN | sort >$DIR/` + name + `; exit 1`}
	}
	const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`
	r := newTrial(t, "exit 2")
	r.OnAcquire, r.OnEnd, r.OnSkip, r.OnLost = hook("acquire"), hook("end"), hook("skip"), []string{"/no/such/program"}
	r.want(r.run(), elect.Exited, 2, -1)
	const holder = `LEADERRUN_HOLDER=\S+\n`
	for name, want := range map[string]string{
		"acquire": "LEADERRUN_EVENT=acquire\n" + holder + "LEADERRUN_KEY=k\n",
		"end":     "LEADERRUN_ENDED=" + stamp + "\nLEADERRUN_EVENT=end\nLEADERRUN_EXIT=42\n" + holder + "LEADERRUN_KEY=k\nLEADERRUN_OUTCOME=exited\nLEADERRUN_STARTED=" + stamp + "\n",
		"skip":    "",
	} {
		if got := r.file(name); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s got:\n%s", name, got)
		}
	}
	for _, says := range []string{`--on-lost cannot be run: "/no/such/program": `, "--on-acquire failed: exit status 1", "--on-end failed: exit status 1", "run it by hand: /"} {
		if strings.Count(r.stderr, says) != 1 && says != "run it by hand: /" || !strings.Contains(r.stderr, says) {
			t.Errorf("not said: %s\n%s", says, r.stderr)
		}
	}

	leader := newTrial(t, "echo leads >$DIR/leads; exec sleep 60")
	leader.OnSkip = hook("skip") // it does not skip
	leader.start()
	leader.await("leads", "leads")
	skips := newTrial(t, "")
	skips.Store, skips.OnSkip, skips.OnEnd = leader.Store, hook("skip"), hook("end")
	o := skips.run()
	skips.want(o, elect.Denied, -1, -1)
	if got := skips.file("skip"); !regexp.MustCompile("^LEADERRUN_EVENT=skip\n"+holder+"LEADERRUN_KEY=k\nLEADERRUN_OUTCOME=denied\n$").MatchString(got) || skips.file("end") != "" {
		t.Errorf("skip got:\n%s\nend got:\n%s", got, skips.file("end"))
	}
	leader.signal(syscall.SIGTERM)
	leader.end()
}

// A hook that does well is not spoken of.
func TestHooksThatAreWell(t *testing.T) {
	r := newTrial(t, "exit 0")
	r.OnAcquire = []string{"sh", "-c", "echo ran >$DIR/ran"}
	if r.want(r.run(), elect.Exited, 0, -1); r.stderr != "" || r.file("ran") != "ran\n" {
		t.Errorf("%q, it said:\n%s", r.file("ran"), r.stderr)
	}
}

// One more order to stop ends a hook for which a run waits.
func TestOrderCutsHooks(t *testing.T) {
	r := newTrial(t, "exit 0")
	r.OnAcquire, r.OnEnd = []string{"sh", "-c", "echo waits >$DIR/hook; sleep 60"}, []string{"true"}
	r.start()
	r.await("hook", "waits")
	for range 20 { // these are none
		r.signal(syscall.SIGUSR1)
		time.Sleep(10 * time.Millisecond)
	}
	if said := r.file("stderr"); said != "" {
		t.Errorf("cut:\n%s", said)
	}
	began, ended := time.Now(), make(chan struct{})
	go func() { // the first may come while the lease is released
		for again := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-again.C:
				_ = r.cmd.Process.Signal(syscall.SIGTERM)
			case <-ended:
				return
			}
		}
	}()
	r.end()
	close(ended)
	if took := time.Since(began); took > hookLimit*3/4 {
		t.Errorf("it took %s", took)
	}
	for _, says := range []string{"--on-acquire failed: killed, since leaderrun ends", "--on-end was not run, since leaderrun ends"} {
		if !strings.Contains(r.stderr, says) {
			t.Errorf("not said: %s\n%s", says, r.stderr)
		}
	}
}

// Metrics are written and served, each if it is asked for.
func TestMetrics(t *testing.T) {
	file := newTrial(t, "exit 0")
	file.MetricsTextfile = file.dir
	file.run()
	files, err := filepath.Glob(filepath.Join(file.dir, "*.prom"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if text := file.file(filepath.Base(files[0])); !strings.Contains(text, `leader_acquired_total{key_class="k",key="k"} 1`) {
		t.Errorf("the file says:\n%s", text)
	}
	none := newTrial(t, "exit 0")
	none.run()
	if files, err := filepath.Glob(filepath.Join(none.dir, "*.prom")); err != nil || len(files) != 0 {
		t.Errorf("%q, %v", files, err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	served := newTrial(t, "echo leads >$DIR/leads; exec sleep 60")
	served.MetricsListen = addr
	served.start()
	served.await("leads", "leads")
	answer, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || !strings.Contains(string(text), `leader_acquired_total{key_class="k",key="k"} 1`) {
		t.Errorf("served, %v:\n%s", err, text)
	}
	served.signal(syscall.SIGTERM)
	served.end()
}

// The service manager hears of a run, if there is one.
func TestServiceManager(t *testing.T) {
	r := newTrial(t, "exit 0")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(r.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	r.env = append(r.env, "NOTIFY_SOCKET="+filepath.Join(r.dir, "notify"))
	r.run()
	said := make([]byte, 4096)
	_ = socket.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := socket.Read(said); err != nil || n == 0 {
		t.Error(err)
	}
}

// Where a terminal shows it, a standby says for whom it waits.
func TestStandbyIsSeen(t *testing.T) {
	leader := newTrial(t, "echo leads >$DIR/leads; exec sleep 60")
	leader.start()
	leader.await("leads", "leads")
	standby := newTrial(t, "exit 4")
	standby.Store, standby.Wait = leader.Store, elect.Forever
	standby.start()
	standby.await("stderr", "k")
	leader.signal(syscall.SIGTERM)
	leader.end()
	standby.want(standby.end(), elect.Exited, 4, -1)
}

// A host that is not eligible does not ask.
func TestEligible(t *testing.T) {
	r := newTrial(t, "exit 0")
	r.Eligible = []string{"sh", "-c", "echo $LEADERRUN_KEY >$DIR/asked; exit 1"}
	if o := r.run(); o.Outcome == string(elect.Exited) || r.file("asked") != "k\n" {
		t.Errorf("%+v, asked for %q", o, r.file("asked"))
	}
	r = newTrial(t, "exit 0")
	r.Eligible = []string{"true"}
	r.want(r.run(), elect.Exited, 0, -1)
	r = newTrial(t, "exit 0")
	r.Eligible = []string{"/no/such/program"}
	if o := r.run(); o.Outcome == string(elect.Exited) || !strings.Contains(CheckEligible(&r.Config).Error(), "cannot be run") {
		t.Errorf("%+v", o)
	}
	for _, well := range [][]string{nil, {"sh"}} {
		if err := CheckEligible(&settings.Config{Eligible: well}); err != nil {
			t.Error(err)
		}
	}
}

// A candidate that stands by has a guard ready, another one has none yet.
func TestGuardIsReady(t *testing.T) {
	for _, wait := range []time.Duration{0, elect.Forever} {
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

// A run leaves no connection behind.
func TestRunClosesTheStore(t *testing.T) {
	server := miniredis.RunT(t)
	c := newTrial(t, "").Config
	c.Store = "redis://" + server.Addr()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := OpenExisting(c, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, err = s.Acquire(t.Context(), lease.Request{Key: c.Key, Holder: NewHolder(), TTL: time.Hour}); errors.As(err, new(*lease.SettlingError)); {
		_, err = s.Acquire(t.Context(), lease.Request{Key: c.Key, Holder: NewHolder(), TTL: time.Hour})
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	defer signal.Reset() // which the run has caught
	result, err := Run(c, log, observe.NewLine(io.Discard, c.Key, false), nil)
	if err != nil || result.Outcome != elect.Denied {
		t.Errorf("%s, %v", result.Outcome, err)
	}
	for late := time.Now().Add(20 * time.Second); server.CurrentConnectionCount() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d connections are open", server.CurrentConnectionCount())
		}
	}
}

// The tick of a run: by name, by a schedule, by both, or the store's time.
func TestTickAt(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixMilli()
	daily, err := schedule.Parse("CRON_TZ=UTC 0 12 * * *")
	if err != nil {
		t.Fatal(err)
	}
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

// The store shows the command's name, unless it is too long for that.
func TestMeta(t *testing.T) {
	const around = len(`{"command":""}`)
	for n, want := range map[int]int{10: 10 + around, 4096 - around: 4096, 4096 - around + 1: len("{}")} {
		if got := meta(settings.Config{Command: []string{strings.Repeat("x", n), "s3cret"}}); len(got) != want || strings.Contains(got, "s3cret") {
			t.Errorf("of %d: %d bytes, want %d", n, len(got), want)
		}
	}
}
