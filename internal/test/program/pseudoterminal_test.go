//go:build linux

package program

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// terminal is an interactive shell on a pseudo-terminal.
type terminal struct {
	t    *testing.T
	dir  string // where it works
	sid  int    // of all processes on it
	keys *os.File
	fd   int // of keys; asking keys for it would make its reads block a Close
	mu   sync.Mutex
	seen bytes.Buffer
	read int // up to here expect has looked
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	s := onTerminal(t, true, "bash", "--norc", "--noprofile", "-i")
	s.expect("prompt> ")
	return s
}

// onTerminal runs a program on a pseudo-terminal. With own it is its controlling terminal
// from the start.
func onTerminal(t *testing.T, own bool, argv ...string) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must.Succeed(t, err)
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must.Succeed(t, err)
	must.Succeed(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	must.Succeed(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must.Succeed(t, err)
	defer slave.Close()
	shell := exec.Command(argv[0], argv[1:]...)
	shell.Dir = t.TempDir()
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: own}
	// A script ignores INT for what it starts in the background, nohup ignores HUP, and all on
	// the terminal would, too.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	shell.Env = append(os.Environ(), "PS1=prompt> ", "TERM=dumb", "LESS=", "HISTFILE=", "LEADERRUN_STORE=file:"+filepath.Join(t.TempDir(), "store"), "LEADERRUN_KEY=k")
	must.Succeed(t, shell.Start())
	s := &terminal{t: t, dir: shell.Dir, sid: shell.Process.Pid, keys: master, fd: fd}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.seen.Write(b[:n])
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			s.mu.Lock()
			t.Logf("the terminal showed %q", s.seen.Bytes())
			s.mu.Unlock()
		}
		master.Close() // hangs up, and the shell hangs its jobs up
		_ = shell.Wait()
		eventually(t, "everybody on the terminal is gone", func() bool {
			return !regexp.MustCompile(`(?m)^[^Z]`).MatchString(s.processes()) // some containers have no reaper
		})
	})
	return s
}

// processes lists the states and names of the processes on the terminal, one per line.
func (s *terminal) processes() string {
	list, _ := exec.Command("ps", "-o", "stat=,comm=", "--sid", fmt.Sprint(s.sid)).Output() // nobody: status 1
	return string(list)
}

func (s *terminal) enter(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// suspend stops the job in the foreground by the terminal's key.
func (s *terminal) suspend() {
	s.t.Helper()
	s.enter(ctrlZ)
	s.expect("Stopped.*leaderrun")
}

// resume continues the job in the foreground. The shell prints the job before it gives it
// the terminal; until then keys go to the shell.
func (s *terminal) resume() {
	s.t.Helper()
	s.enter("fg\n")
	s.expect("leaderrun")
	eventually(s.t, "the job has the terminal", func() bool {
		group, err := unix.IoctlGetInt(s.fd, unix.TIOCGPGRP)
		return err == nil && group != s.sid
	})
}

// taken waits until a process has received its signals: a pending one would merge with the
// next of its kind.
func (s *terminal) taken(pid int) {
	s.t.Helper()
	eventually(s.t, "no signal is pending", func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return strings.Contains(string(status), "ShdPnd:\t0000000000000000\n")
	})
}

// expect waits until the pattern appears after the previous match, and returns its group.
func (s *terminal) expect(pattern string) (group string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(s.t, "the terminal shows "+pattern, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		rest := s.seen.Bytes()[s.read:]
		at := re.FindSubmatchIndex(rest)
		if len(at) > 2 {
			group = string(rest[at[2]:at[3]])
		}
		if at != nil {
			s.read += at[1]
		}
		return at != nil
	})
	return group
}

// pid is the process id that the pattern's group matches.
func (s *terminal) pid(pattern string) int {
	s.t.Helper()
	pid, err := strconv.Atoi(s.expect(pattern))
	must.Succeed(s.t, err)
	return pid
}

// stateOf returns the letter of a process's state; "" if it is gone.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

const (
	ctrlC         = "\x03"
	ctrlD         = "\x04"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// counting is a command that counts its signals, and ends with 3 at USR1. It is not bash,
// which sometimes loses an INT while it waits for a program.
const counting = `perl -e '$| = 1; $int = $quit = 0; $SIG{INT} = sub { print "INT ", ++$int, "\n" }; $SIG{QUIT} = sub { print "QUIT ", ++$quit, "\n" };
	$SIG{USR1} = sub { print "$int and $quit\n"; exit 3 }; print "up\n"; select undef, undef, undef, 0.05 while 1'`

// run enters a command line and waits until the command behind it says "up".
func (s *terminal) run(line string) {
	s.t.Helper()
	s.enter(line + "\n")
	s.expect(`[^"]up\r\n`)
}

func (s *terminal) status(want int) {
	s.t.Helper()
	s.enter("echo status $?\n")
	s.expect(fmt.Sprintf(`status %d\r\n`, want))
}

// needs skips a test if a program is missing; with CI set it fails the test.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
