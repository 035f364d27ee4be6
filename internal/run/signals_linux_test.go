package run

import (
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/leaderrun/leaderrun/internal/early" // this test binary can also be the guard
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// heard returns what a listener reports when this process gets a signal.
func heard(t *testing.T, l *listener, sent syscall.Signal, fromTerminal bool) {
	t.Helper()
	must.Succeed(t, syscall.Kill(os.Getpid(), sent))
	select {
	case r := <-l.received:
		if r.Signal != int(sent) || r.FromTerminal != fromTerminal {
			t.Errorf("%v: %+v, want from a terminal %t", sent, r, fromTerminal)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("%v is not heard", sent)
	}
}

func newListener(t *testing.T, terminal bool, holds bool) *listener {
	l := listen(terminal, func(int) bool { return holds })
	<-l.ready
	t.Cleanup(func() { signal.Stop(l.caught) })
	return l
}

// A signal that a process sends to leaderrun alone did not come from a terminal. One that
// the command sends to its process group has reached the command already.
func TestSignalsOfATerminal(t *testing.T) {
	for _, tt := range []struct{ terminal, holds, want bool }{
		{true, false, false}, // first: senders are recorded from here on
		{true, true, true},
		{false, false, false},
		{false, true, false},
	} {
		l := newListener(t, tt.terminal, tt.holds)
		heard(t, l, syscall.SIGINT, tt.want)
		heard(t, l, syscall.SIGUSR1, false)
		signal.Stop(l.caught)
	}
}

// caught reports whether this process catches a signal.
func caught(t *testing.T, s syscall.Signal) bool {
	t.Helper()
	text := must.Read(t, "/proc/self/status")
	mask, err := strconv.ParseUint(regexp.MustCompile(`SigCgt:\t(\w+)`).FindStringSubmatch(text)[1], 16, 64)
	must.Succeed(t, err)
	return mask>>(s-1)&1 == 1
}

// A terminal stops a candidate like any program, but not a leader, which could not renew.
// Each case needs its own process, since the runtime never stops catching a signal.
func TestStopSignals(t *testing.T) {
	const variable = "STOP_SIGNALS"
	cases := map[string]func(){
		"without a terminal": func() {
			l := newListener(t, false, true)
			if caught(t, syscall.SIGTTIN) {
				t.Error("SIGTTIN is caught")
			}
			heard(t, l, syscall.SIGTSTP, false)
		},
		"at a terminal": func() {
			var others atomic.Bool
			l := listen(true, func(int) bool { return !others.Load() })
			<-l.ready
			if !caught(t, syscall.SIGTTIN) || !caught(t, syscall.SIGTTOU) || caught(t, syscall.SIGTSTP) {
				t.Error("a candidate does not catch the right ones")
			}
			l.beforeStart()
			heard(t, l, syscall.SIGTSTP, true)
			others.Store(true)
			heard(t, l, syscall.SIGTSTP, false)
			heard(t, l, syscall.SIGINT, false)
		},
		"ignored": func() {
			signal.Ignore(syscall.SIGTSTP)
			newListener(t, true, true).beforeStart()
			if caught(t, syscall.SIGTSTP) {
				t.Error("what the caller ignores is caught")
			}
		},
	}
	if test := cases[os.Getenv(variable)]; test != nil {
		test()
		return
	}
	for name := range cases {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestStopSignals$")
		cmd.Env = append(os.Environ(), variable+"="+name)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
}

// Nothing starts before the signals are caught.
func TestSignalsBeforeTheStart(t *testing.T) {
	l := &listener{ready: make(chan struct{})}
	commands := runner.New("/no/such/program", []string{"program"})
	defer commands.Close()
	p := process{Runner: commands, signals: l, file: &leaseFile{}}
	reported := make(chan elect.Event, 1)
	go p.Start(runner.Now()+time.Minute, runner.Now()+time.Minute, lease.Lease{}, func(e elect.Event) { reported <- e })
	select {
	case e := <-reported:
		t.Errorf("started: %+v", e)
	case <-time.After(50 * time.Millisecond):
	}
	close(l.ready)
	if e := <-reported; e.Kind != elect.StartFailed {
		t.Errorf("%+v", e)
	}
}

// TestMain leaves the terminal, and catches what the caller may have ignored: leaderrun would ignore
// it, too.
func TestMain(m *testing.M) {
	_, _ = syscall.Setsid() // fails only for the leader of a process group
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) { // by nohup, or in the background of a shell
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}
