package guard

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// underShell makes a guard start with a shell as its elector.
func underShell(t *testing.T) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		self, err := os.Executable()
		must.Succeed(t, err)
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", Marker + "=3 " + self + " & exec 3<&- 4>&- 5<&- 6>&-; wait"}
		cmd.Env = append(os.Environ(), Settings...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // otherwise the terminal's group is that of the tests
	}
}

// If its terminal has stopped the command, the elector is stopped, too, and in no other case.
func TestElectorStopsWithTheCommand(t *testing.T) {
	for _, test := range []struct {
		name  string
		trap  string // what the command does at SIGTSTP: '-' is the default
		stop  syscall.Signal
		group bool // the command is in the terminal's
		stops bool
		ends  syscall.Signal
	}{
		{"suspended, continued", "-", syscall.SIGTSTP, true, true, syscall.SIGCONT},
		{"reads, continued", "-", syscall.SIGTTIN, true, true, syscall.SIGCONT},
		{"writes, killed", "-", syscall.SIGTTOU, true, true, syscall.SIGKILL},
		{"stopped by hand", "-", syscall.SIGSTOP, true, false, syscall.SIGKILL},
		{"stops itself as top does, continued", ":", syscall.SIGSTOP, true, true, syscall.SIGCONT},
		{"stops itself as an interactive shell does, continued", "''", syscall.SIGSTOP, true, true, syscall.SIGCONT},
		{"no terminal", ":", syscall.SIGSTOP, false, false, syscall.SIGKILL},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := start(t, underShell(t))
			up := t.TempDir() + "/up"
			command := shell("trap " + test.trap + " TSTP; mkfifo " + up + "; read line <" + up)
			command.Shared = test.group
			g.order(t, OrderStart, far(), command)
			pid := int(g.next(t, ReportStarted))
			await(t, "the command runs", func() bool { _, err := os.Stat(up); return err == nil && state(pid) == "S" })
			_ = syscall.Kill(pid, test.stop)
			await(t, "the command stops", func() bool { return state(pid) == "T" })
			elector := g.cmd.Process.Pid
			if test.stops {
				await(t, "the elector stops", func() bool { return state(elector) == "T" })
			} else if time.Sleep(50 * time.Millisecond); state(elector) != "S" { // a stop would have happened by now
				t.Error("the elector is not at work")
			}
			_ = syscall.Kill(pid, test.ends)
			if test.ends == syscall.SIGCONT {
				await(t, "the elector goes on", func() bool { return state(elector) == "S" })
				g.order(t, OrderKill, 0, nil)
			}
			g.next(t, ReportGone)
			await(t, "the elector goes on", func() bool { return strings.Contains("SZ", state(elector)) })
		})
	}
}

// A shell continues the whole group of a job. The elector's SIGCONT comes late and does not
// undo the next stop. A SIGCONT that was sent to leaderrun alone continues the command.
func TestContinueAtATerminal(t *testing.T) {
	g := start(t, underShell(t))
	elector := g.cmd.Process.Pid
	command := shell("exec sleep 60")
	command.Shared = true
	g.order(t, OrderStart, far(), command)
	pid := int(g.next(t, ReportStarted))
	guards, _ := proc.ChildrenOf(elector)
	is := func(pid int, want string) {
		t.Helper()
		await(t, "state "+want, func() bool { return state(pid) == want })
	}
	send := func(pid int, sig syscall.Signal) {
		t.Helper()
		must.Succeed(t, syscall.Kill(pid, sig))
	}
	is(pid, "S")
	send(pid, syscall.SIGTSTP)
	is(elector, "T")
	g.order(t, OrderSignal, int64(syscall.SIGCONT), nil)
	is(pid, "S")
	is(elector, "S")

	g.order(t, OrderSignal, int64(syscall.SIGTSTP), nil) // an ordered stop
	is(elector, "T")
	g.order(t, OrderSignal, int64(syscall.SIGCONT), nil)
	is(pid, "S")
	is(elector, "S")

	send(pid, syscall.SIGTSTP)
	is(elector, "T")
	send(guards[0], syscall.SIGSTOP) // a busy machine: the guard is late
	is(guards[0], "T")
	for _, job := range []int{pid, elector} {
		send(job, syscall.SIGCONT)
		is(job, "S")
	}
	g.order(t, OrderSignal, int64(syscall.SIGCONT), nil)
	send(pid, syscall.SIGTSTP)
	is(pid, "T")
	send(guards[0], syscall.SIGCONT)
	is(elector, "T")
	is(pid, "T")
	g.order(t, OrderSignal, int64(syscall.SIGCONT), nil)
	is(pid, "S")
	is(elector, "S")

	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
}

// The elector's SIGCONT undoes a stop that it ordered, even if the guard finds both orders at
// once and the command has not stopped yet.
func TestContinueUndoesAnOrderedStop(t *testing.T) {
	heard := t.TempDir() + "/heard"
	has := func(word string) {
		t.Helper()
		await(t, "the command writes "+word, func() bool { b, _ := os.ReadFile(heard); return strings.Contains(string(b), word) })
	}
	g := start(t, underShell(t))
	command := shell("trap 'echo continued >>" + heard + "' CONT; echo up >>" + heard + "; while :; do sleep 0.01; done")
	command.Shared = true
	g.order(t, OrderStart, far(), command)
	g.next(t, ReportStarted)
	has("up")
	guards, _ := proc.ChildrenOf(g.cmd.Process.Pid)
	_ = syscall.Kill(guards[0], syscall.SIGSTOP)
	await(t, "the guard stops", func() bool { return state(guards[0]) == "T" })
	g.order(t, OrderSignal, int64(syscall.SIGTSTP), nil)
	g.order(t, OrderSignal, int64(syscall.SIGCONT), nil)
	_ = syscall.Kill(guards[0], syscall.SIGCONT)
	has("continued")
	g.kills(t)
}

// Without a terminal a SIGCONT is for the whole group.
func TestContinueReachesTheGroup(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, far(), shell("sleep 60 & wait"))
	pid := int(g.next(t, ReportStarted))
	var children []int
	await(t, "the descendant runs", func() bool { children, _ = proc.ChildrenOf(pid); return len(children) == 1 })
	_ = syscall.Kill(children[0], syscall.SIGSTOP)
	await(t, "it stops", func() bool { return state(children[0]) == "T" })
	g.order(t, OrderSignal, int64(syscall.SIGCONT), nil)
	await(t, "it goes on", func() bool { return state(children[0]) == "S" })
	g.kills(t)
}

// If somebody else has stopped the elector, it stays stopped when the command goes on.
func TestElectorStoppedByOthers(t *testing.T) {
	g := start(t, underShell(t))
	elector := g.cmd.Process.Pid
	g.order(t, OrderStart, far(), shell("exec sleep 60"))
	pid := int(g.next(t, ReportStarted))
	for _, s := range []struct {
		pid  int
		sig  syscall.Signal
		want string
	}{{elector, syscall.SIGSTOP, "T"}, {pid, syscall.SIGSTOP, "T"}, {pid, syscall.SIGCONT, "S"}} {
		must.Succeed(t, syscall.Kill(s.pid, s.sig))
		await(t, "state "+s.want, func() bool { return state(s.pid) == s.want })
	}
	time.Sleep(50 * time.Millisecond) // a SIGCONT would have arrived by now
	if state(elector) != "T" {
		t.Error("the elector goes on")
	}
	_ = syscall.Kill(elector, syscall.SIGCONT)
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
}
