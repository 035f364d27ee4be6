//go:build linux

package program

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

var update = flag.Bool("update", false, "write the table of signals in docs/guard.md anew")

// effect is what a signal to leaderrun does.
type effect string

const (
	nothing = effect("nothing")
	ends    = effect("leaderrun ends")
	passed  = effect("passed on")
	order   = effect("the command is stopped")
	stops   = effect("leaderrun is stopped")
	held    = effect("leaderrun is stopped; at kill-by the guard kills the tree")
	kills   = effect("leaderrun is killed")
	orphans = effect("leaderrun is killed; the guard kills the tree and ends the lease")
	crash   = effect("status 2 and stacks, for a bug report")
	crashes = effect("the same; the guard kills the tree and ends the lease")
)

// place is where leaderrun runs.
type place struct {
	name     string
	terminal bool // it has a controlling terminal
	first    bool // it is the first process of a namespace
}

func (p place) plain() bool { return !p.terminal && !p.first }

var places = []place{{"plain", false, false}, {"terminal", true, false}, {"first", false, true}, {"first with terminal", true, true}}

// signalRow says what signals do that a process sends to leaderrun alone.
type signalRow struct {
	signals       []syscall.Signal
	idle, leading effect
	otherwise     string // where that is so only in some places
	// in is where idle and leading hold; nil is everywhere. Elsewhere nothing happens.
	idleIn, leadingIn func(place) bool
}

// realTime returns the real-time signals that leaderrun passes on.
func realTime() (all []syscall.Signal) {
	for sig := 35; sig <= 64; sig++ {
		all = append(all, syscall.Signal(sig))
	}
	return all
}

// signalTable has every signal of Linux once.
var signalTable = []signalRow{
	{signals: []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGABRT, unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS},
		idle: ends, leading: order},
	{signals: append([]syscall.Signal{unix.SIGHUP, unix.SIGQUIT, unix.SIGALRM, unix.SIGPWR}, realTime()...), idle: ends, leading: passed},
	{signals: []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGIO, unix.SIGVTALRM, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGWINCH},
		idle: nothing, leading: passed},
	{signals: []syscall.Signal{unix.SIGCONT}, idle: nothing, leading: passed, otherwise: "at a terminal only if the command is stopped",
		leadingIn: func(p place) bool { return !p.terminal }},
	{signals: []syscall.Signal{unix.SIGTSTP}, idle: stops, leading: passed, otherwise: "while nothing runs only at a terminal, and not as the first process",
		idleIn: func(p place) bool { return p.terminal && !p.first }},
	{signals: []syscall.Signal{unix.SIGTTIN, unix.SIGTTOU}, idle: stops, leading: held, otherwise: "not at a terminal, nor as the first process",
		idleIn: place.plain, leadingIn: place.plain},
	{signals: []syscall.Signal{unix.SIGCHLD, unix.SIGURG, unix.SIGPROF, 33}, idle: nothing, leading: nothing, otherwise: "everywhere: Go's runtime keeps them"},
	{signals: []syscall.Signal{32, 34}, idle: kills, leading: orphans, otherwise: "not as the first process: Go's runtime lets nobody catch them",
		idleIn: func(p place) bool { return !p.first }, leadingIn: func(p place) bool { return !p.first }},
	{signals: []syscall.Signal{unix.SIGSTKFLT}, idle: crash, leading: crashes},
	{signals: []syscall.Signal{unix.SIGSTOP}, idle: stops, leading: held},
	{signals: []syscall.Signal{unix.SIGKILL}, idle: kills, leading: orphans},
}

// effects returns what the row's signals do in a place.
func (r signalRow) effects(p place) (idle, leading effect) {
	idle, leading = r.idle, r.leading
	if r.idleIn != nil && !r.idleIn(p) {
		idle = nothing
	}
	if r.leadingIn != nil && !r.leadingIn(p) {
		leading = nothing
	}
	return idle, leading
}

// names returns the row's signals for people: "35–64" for those without a name.
func (r signalRow) names() string {
	var names []string
	for i := 0; i < len(r.signals); i++ {
		first := r.signals[i]
		name := strings.TrimPrefix(unix.SignalName(first), "SIG")
		if first >= 32 {
			name = fmt.Sprint(int(first))
		}
		if last := r.signals[len(r.signals)-1]; first >= 32 && last-first > 2 {
			name, i = fmt.Sprintf("%d–%d", first, last), len(r.signals)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// The table of docs/guard.md is this one.
func TestSignalsAreDocumented(t *testing.T) {
	const page, head = "docs/guard.md", "| signals | while nothing runs | while the command runs | where |\n|---|---|---|---|\n"
	want := head
	var all []syscall.Signal
	for _, row := range signalTable {
		all = append(all, row.signals...)
		want += fmt.Sprintf("| %s | %s | %s | %s |\n", row.names(), row.idle, row.leading, row.otherwise)
	}
	slices.Sort(all)
	for i := range 64 {
		if len(all) != 64 || all[i] != syscall.Signal(i+1) {
			t.Fatalf("not every signal once: %d", all)
		}
	}
	have := must.Read(t, page)
	before, rest, found := strings.Cut(have, head)
	_, after, ended := strings.Cut(rest, "\n\n")
	switch {
	case !found || !ended:
		t.Fatalf("%s has no table of signals", page)
	case strings.Contains(have, want+"\n"):
	case *update:
		must.Succeed(t, os.WriteFile(page, []byte(before+want+"\n"+after), 0o644))
	default:
		t.Errorf("%s has another table of signals (-update writes it anew)", page)
	}
}

// What the table says is tried with every signal in every place.
func TestEverySignalToLeaderrun(t *testing.T) {
	t.Parallel()
	needs(t, "perl")
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if p.first {
				unshared(t, "--pid", "--fork")
			}
			busy := memory(t)
			holder := leaderrun(busy, "--ttl=1h", "sh", "-c", "echo >holder; exec sleep 600")
			must.Succeed(t, holder.Start())
			t.Cleanup(func() { _ = holder.Process.Signal(syscall.SIGTERM); _ = holder.Wait() })
			eventually(t, "somebody leads", func() bool { return read(busy+"/holder") != "" })
			stores := []string{busy, ""}       // of a standby and of a leader
			var idle, leading []syscall.Signal // those that leaderrun survives
			expected := map[syscall.Signal][2]effect{}
			for _, row := range signalTable {
				for _, sig := range row.signals {
					while, led := row.effects(p)
					expected[sig] = [2]effect{while, led}
				}
			}
			for _, sig := range slices.Sorted(maps.Keys(expected)) {
				for phase, effect := range expected[sig] {
					survivors := []*[]syscall.Signal{&idle, &leading}[phase]
					switch effect {
					case nothing, passed, stops, held:
						*survivors = append(*survivors, sig)
					default:
						if !p.plain() && sig > 35 && sig < 64 && effect == ends {
							continue // one comparison decides for all of these
						}
						c := candidateIn(t, p, stores[phase])
						c.send(t, sig)
						c.ends(t, sig, effect)
					}
				}
			}
			for phase, signals := range [][]syscall.Signal{idle, leading} {
				c := candidateIn(t, p, stores[phase])
				for _, sig := range signals {
					c.send(t, sig)
					c.survives(t, sig, expected[sig][phase])
				}
				c.send(t, unix.SIGTERM)
				c.ends(t, unix.SIGTERM, expected[unix.SIGTERM][phase])
			}
		})
	}
}

// signalled is a leaderrun that gets signals.
type signalled struct {
	dir     string
	elector int
	first   bool
	// continued: its command gets SIGCONT, too, which takes back a SIGTSTP that is still on its way.
	continued bool
}

// recorder writes the number of each signal that it gets.
const recorder = `use POSIX; $| = 1;
for my $n (1..64) { POSIX::sigaction($n, POSIX::SigAction->new(sub { print "got $n\n" })) unless $n == 17 || $n == 32 || $n == 33 }
print "up\n"; select undef, undef, undef, 0.1 while 1`

// shell runs a command in a directory, as a job in the background, and writes its id and status.
const shell = `chdir shift; sub note { open my $f, ">", shift; print $f @_ }
my $pid = fork;
if (!$pid) { setpgrp 0, 0; open STDOUT, ">got"; open STDERR, ">said"; exec @ARGV }
note "job", $pid; waitpid $pid, 0; note "ended", $? & 127 ? 128 + ($? & 127) : $? >> 8`

// candidateIn starts leaderrun in a place, as a job of a shell. It stands by if there is a directory
// in whose store another leads; otherwise it leads.
func candidateIn(t *testing.T, p place, busy string) *signalled {
	t.Helper()
	c := &signalled{dir: memory(t), first: p.first}
	leads := busy == ""
	c.continued = leads && !p.terminal
	argv := []string{"leaderrun", "--store=file:" + cmp.Or(busy, c.dir) + "/store", "--key=k", "-v", "--wait=forever", "env", c.mark(), "perl", "-e", recorder}
	if p.first {
		argv = append(unshared(t, "--pid", "--fork", "--mount-proc", "--kill-child"), argv...)
	}
	job := append([]string{"perl", "-e", shell, c.dir}, argv...)
	if p.terminal {
		onTerminal(t, true, job...)
	} else {
		cmd := exec.Command(job[0], job[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must.Succeed(t, cmd.Start())
		t.Cleanup(func() {
			if c.elector > 0 && c.file("ended") == "" {
				_ = syscall.Kill(c.elector, syscall.SIGKILL)
			}
			_ = cmd.Wait()
		})
	}
	eventually(t, "it is ready", func() bool {
		ready := strings.HasPrefix(c.file("got"), "up\n")
		if !leads {
			ready = strings.Contains(c.file("said"), "standing by")
		}
		return ready && c.file("job") != ""
	})
	c.elector, _ = strconv.Atoi(c.file("job"))
	if p.first {
		c.elector = childOf(t, c.elector)
	}
	// Go catches most signals from the start, and drops them until it is told otherwise. CONT is in the
	// middle of those that it is told of.
	eventually(t, "the signals are caught, and no thread is at work", func() bool {
		return regexp.MustCompile(`SigCgt:\t\w{11}[2367abef]`).MatchString(c.proc("status")) &&
			!strings.Contains(strings.Join(taskFiles(t, c.elector, "stat"), ""), ") R ")
	})
	return c
}

// mark is in the environment of the command.
func (c *signalled) mark() string { return "SIGNALLED=" + c.dir }

// read returns a file's text, "" if there is none.
func read(path string) string { b, _ := os.ReadFile(path); return string(b) }

func (c *signalled) file(name string) string { return read(filepath.Join(c.dir, name)) }

func (c *signalled) proc(name string) string {
	return read(fmt.Sprintf("/proc/%d/%s", c.elector, name))
}

func (c *signalled) send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	must.Succeed(t, syscall.Kill(c.elector, sig))
}

// survives asserts that leaderrun has survived a signal. What did nothing is found out by the next one
// that does something.
func (c *signalled) survives(t *testing.T, sig syscall.Signal, want effect) {
	t.Helper()
	stopped := want == stops || want == held
	got := fmt.Sprintf("got %d\n", sig)
	eventually(t, fmt.Sprintf("signal %d: %s", sig, want), func() bool {
		switch {
		case stopped:
			return stateOf(c.elector) == "T"
		case want == passed:
			return strings.Contains(c.file("got"), got)
		}
		return strings.Contains(c.proc("status"), "ShdPnd:\t0000000000000000\n")
	})
	if stopped {
		times := func() int { return strings.Count(c.file("got"), "got 18\n") }
		before := times()
		c.send(t, syscall.SIGCONT)
		eventually(t, "it goes on", func() bool { return !c.continued || times() > before })
	} else if want == nothing && sig != unix.SIGCONT && strings.Contains(c.file("got"), got) {
		t.Errorf("signal %d was passed on", sig)
	}
}

// ends asserts that leaderrun ends as it should after a signal, and that nothing of its tree lives.
func (c *signalled) ends(t *testing.T, sig syscall.Signal, want effect) {
	t.Helper()
	if want == order {
		eventually(t, fmt.Sprintf("signal %d reaches the command", sig), func() bool { return strings.Contains(c.file("got"), fmt.Sprintf("got %d\n", sig)) })
		for _, pid := range marked(c.mark()) {
			must.Succeed(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	status := map[effect]int{ends: 128 + int(sig), order: 128 + 9, kills: 128 + int(sig), orphans: 128 + int(sig), crash: 2, crashes: 2}[want]
	eventually(t, fmt.Sprintf("signal %d: %s", sig, want), func() bool { return c.file("ended") != "" })
	if got := c.file("ended"); got != fmt.Sprint(status) && !(c.first && sig == unix.SIGKILL) { // unshare does not tell
		t.Errorf("signal %d: status %s, want %d; it said:\n%.500s", sig, got, status, c.file("said"))
	}
	eventually(t, fmt.Sprintf("signal %d: the tree is dead", sig), func() bool { return marked(c.mark()) == nil })
}
