package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
)

func heldBy(value string, why lease.How) func(*elect.State) {
	return func(r *elect.State) {
		r.Denial = lease.Condition{Why: why, Value: value, Remaining: 12 * time.Second}
	}
}

func noGuard(err error) func(*elect.State) {
	return failed(fmt.Errorf("%w: %w", runner.ErrGuard, err))
}

func TestExplain(t *testing.T) {
	away := &lease.StoreError{Op: "acquire", Err: errors.New("redis at h:6379: connection refused"), Hint: "start it"}
	tests := []struct {
		result elect.State
		set    string
		want   string // empty: nothing is said
	}{
		{result(candidate.Exited, exited(0, 0)), "", ""},
		{result(candidate.Exited, exited(3, 0)), "", ""},
		{result(candidate.Ordered, exited(0, 15), orderedBy(15)), "", ""},
		{result(candidate.Ordered, orderedBy(15)), "wait=forever", ""},
		{result(candidate.Denied, heldBy("h/1/x", lease.Held)), "", ""},
		{result(candidate.Denied, heldBy("h/1/x", lease.Held)), "wait=5m skip-exit-code=0", ""},
		{result(candidate.Skipped), "", ""},
		{result(candidate.Paused), "wait=5m", ""},
		{result(candidate.Ineligible, failed(errors.New("this host is not eligible: test: exit status 1"))), "", ""},
		{result(candidate.Ineligible, failed(errors.New("this host is not eligible: test: exit status 1"))), "wait=5m", "leaderrun: k: nothing ran: --wait 5m ran out, this host is not eligible: test: exit status 1\n  "},
		{result(candidate.Denied, heldBy("h/1/x", lease.Held)), "wait=5m", `leaderrun: k: nothing ran: --wait 5m ran out, "h/1/x" leads` + "\n  "},
		{result(candidate.Denied, heldBy("", lease.Settling)), "wait=5m", "leaderrun: k: nothing ran: --wait 5m ran out, the key settles for 12s ()\n  "},
		{result(candidate.Unavailable, failed(away)), "", "leaderrun: k: nothing ran: acquire: redis at h:6379: connection refused\n  start it\n"},
		{result(candidate.Unavailable), "", "leaderrun: k: nothing ran: no reason known\n"},
		{result(candidate.Lost, exited(0, 15), failed(lease.ErrLost)), "", "leaderrun: k: lease lost, the command was stopped, its result is void: " + lease.ErrLost.Error() + "\n  "},
		{result(candidate.Expired, exited(0, 15), failed(away)), "", "leaderrun: k: lease expired, the command was stopped, its result is void: acquire: redis at h:6379: connection refused\n  start it\n"},
		{result(candidate.Expired, failed(away)), "", "leaderrun: k: lease expired before the command had started: acquire: redis at h:6379: connection refused\n  start it\n"},
		{result(candidate.GuardDied, failed(errors.New("signal 9"))), "", "leaderrun: k: the command was killed: signal 9\n  "},
		{result(candidate.MaxRuntime), "max-runtime=90m", "leaderrun: k: the command ran longer than --max-runtime 1h30m and was stopped\n"},
		{result(candidate.NotStarted, failed(syscall.ENOENT)), "", `leaderrun: k: command not found: "job"` + "\n  give its full path"},
		{result(candidate.NotStarted, failed(syscall.EACCES)), "", `leaderrun: k: cannot execute "job": permission denied` + "\n  it must be"},
		{result(candidate.NotStarted, failed(syscall.E2BIG)), "", `leaderrun: k: cannot execute "job": argument list too long` + "\n  its arguments and environment"},
		{result(candidate.NotStarted, failed(syscall.EAGAIN)), "", `leaderrun: k: nothing ran: cannot start "job": resource temporarily unavailable` + "\n  raise the limit of processes"},
		{result(candidate.NotStarted, failed(syscall.ENOMEM)), "", `leaderrun: k: nothing ran: cannot start "job": cannot allocate memory` + "\n  free memory"},
		{result(candidate.NotStarted, failed(syscall.ETIMEDOUT)), "", "leaderrun: k: nothing ran: the lease ran out before the start: leaderrun itself was stopped, starved, or asleep with the machine\n"},
		{result(candidate.NotStarted, noGuard(os.NewSyscallError("pipe2", syscall.EMFILE))), "", "leaderrun: k: nothing ran: cannot start the guard process: pipe2: too many open files\n  raise the limit of open files"},
		{result(candidate.NotStarted, noGuard(syscall.ENFILE)), "", "leaderrun: k: nothing ran: cannot start the guard process: too many open files in system\n  this host has no open files left"},
		{result(candidate.NotStarted, noGuard(runner.ErrNoProc)), "", "leaderrun: k: nothing ran: cannot start the guard process: /proc is missing here or shows other processes, and without it no process tree can be killed\n  mount the /proc"},
		{result(candidate.NotStarted, noGuard(errors.New("killed"))), "", "leaderrun: k: nothing ran: cannot start the guard process: killed\n"},
	}
	defer swap(t, &os.Stderr)() // no terminal
	for _, tt := range tests {
		var said bytes.Buffer
		c := configured(t, tt.set)
		explainOutcome(newLogger(&said, c), c, tt.result)
		if got := said.String(); tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s with %q: %q, want %q", tt.result.Outcome, tt.set, got, tt.want)
		}
	}
}

// On a terminal a skip says why. What a store answers may be anything.
func TestSkipOnATerminal(t *testing.T) {
	denied := func(value string, why lease.How) elect.State {
		return result(candidate.Denied, heldBy(value, why))
	}
	tests := []struct {
		result elect.State
		want   string
	}{
		{result(candidate.Skipped, heldBy("", lease.Served)), "nothing ran: " + lease.Condition{Why: lease.Served}.String()},
		{denied("h/1/x", lease.Held), `nothing ran: "h/1/x" leads`},
		{denied("\x1b[2J", lease.Held), `nothing ran: "\x1b[2J" leads`},
		{denied("cooldown:h/1/x", lease.Cooldown), "nothing ran: the minimum hold of the last run goes on for another 12s"},
		{denied("revoked:h/1/x", lease.Revoked), "nothing ran: the lease was taken from its holder, which has 12s to stop its command"},
		{denied("other\n", lease.Foreign), `nothing ran: the key holds "other\n", which leaderrun did not write`},
	}
	stderr := os.Stderr
	t.Cleanup(func() { os.Stderr = stderr })
	var err error
	if os.Stderr, err = os.Open(os.DevNull); err != nil { // as much of a terminal as a test has: a character device
		t.Fatal(err)
	}
	for _, tt := range tests {
		for quiet, want := range map[string]string{"": "leaderrun: k: " + tt.want + "\n", "quiet=true": ""} {
			var said bytes.Buffer
			c := configured(t, quiet)
			explainOutcome(newLogger(&said, c), c, tt.result)
			if said.String() != want {
				t.Errorf("%q: %q, want %q", quiet, &said, want)
			}
		}
	}
}

// A crontab line may set a variable before the command, as a shell would. Its value may be
// a password.
func TestAssignmentIsNoCommand(t *testing.T) {
	for name, want := range map[string]string{
		"PGPASSWORD=s3cret": `leaderrun: command not found: "PGPASSWORD=…"` + "\n  no shell reads it: set a variable with env, as in -- env NAME=VALUE COMMAND\n",
		"A=1 job":           `leaderrun: command not found: "A=…"` + "\n  no shell reads it: set a variable",
		"/opt/a=b":          `leaderrun: command not found: "/opt/a=b"` + "\n  check its path",
		"job --a=b":         `leaderrun: command not found: "job --a=b"` + "\n  no shell reads it: write its arguments",
	} {
		var said bytes.Buffer
		explainStart(newLogger(&said, configured(t, "")), name, syscall.ENOENT)
		if !strings.HasPrefix(said.String(), want) {
			t.Errorf("%s: %q, want %q", name, &said, want)
		}
	}
}
