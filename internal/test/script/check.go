//go:build linux

package script

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func signal(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: signal SIG NAME|FILE")
	}
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("unknown signal %s", args[0])
	}
	ts.Check(syscall.Kill(pidOf(ts, args[1]), sig))
}

func alive(ts *testscript.TestScript, args []string) {
	for _, arg := range args {
		if !Lives(pidOf(ts, arg)) {
			ts.Fatalf("%s is dead", arg)
		}
	}
}

func dead(ts *testscript.TestScript, args []string) {
	s := of(ts)
	for _, arg := range args {
		living := func() []int {
			if s.runs[arg] != nil {
				return s.marked(arg)
			}
			if pid := pidOf(ts, arg); Lives(pid) {
				return []int{pid}
			}
			return nil
		}
		if !await(func() bool { return len(living()) == 0 }) {
			ts.Fatalf("%s still lives:\n%s", arg, describe(living()))
		}
	}
}

func waitfile(ts *testscript.TestScript, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: waitfile FILE [REGEXP]")
	}
	want := regexp.MustCompile(`(?s).`)
	if len(args) == 2 {
		var err error
		want, err = regexp.Compile("(?m)" + args[1])
		ts.Check(err)
	}
	var have []byte
	if !await(func() bool {
		have, _ = os.ReadFile(ts.MkAbs(args[0])) // a missing file counts as empty
		return want.Match(have)
	}) {
		ts.Fatalf("%s does not get what is awaited, it has:\n%s", args[0], have)
	}
}

func empty(ts *testscript.TestScript, args []string) {
	for _, arg := range args {
		if have := ts.ReadFile(arg); have != "" {
			ts.Fatalf("%s is not empty:\n%s", arg, have)
		}
	}
}

// refused asserts that a wrong input is refused: with status 125, one message that names the
// input, and a hint; and nothing was done. The command of such a line would write to the file
// ran; passwords contain s3cret.
func refused(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: refused WORD command [args...]")
	}
	s := of(ts)
	s.finish(ts, s.start(ts, foreground, args[1:]), 125)
	stdout, stderr := ts.ReadFile(foreground+".out"), ts.ReadFile(foreground+".err")
	message, hint, _ := strings.Cut(strings.TrimSuffix(stderr, "\n"), "\n")
	_, sameLine, _ := strings.Cut(message, "; ")
	switch {
	case stdout != "":
		ts.Fatalf("it wrote to stdout")
	case !strings.HasPrefix(message, "leaderrun: "):
		ts.Fatalf("the message does not begin with the program's name")
	case !strings.Contains(stderr, args[0]):
		ts.Fatalf("the message does not name %s", args[0])
	case strings.Contains(hint, "\n"):
		ts.Fatalf("more than a message and a hint")
	case strings.TrimSpace(hint) == "" && sameLine == "":
		ts.Fatalf("the message has no hint: neither a second line nor anything after a semicolon")
	case strings.Contains(stderr, "s3cret"):
		ts.Fatalf("the message shows a password")
	}
	if _, err := os.Stat(ts.MkAbs("ran")); err == nil {
		ts.Fatalf("the command ran")
	}
	s.checkNoLease(ts)
}

// checkNoLease asserts that nothing was written to the script's store.
func (s *script) checkNoLease(ts *testscript.TestScript) {
	switch s.store {
	case Redis:
		if n := s.admin.DBSize(s.t.Context()).Val(); n != 0 {
			ts.Fatalf("the store has %d keys", n)
		}
		return
	case Postgres:
		if tables, err := s.postgres.Do("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"); tables != "" || err != nil {
			ts.Fatalf("the store has tables: %s (%v)", tables, err)
		}
		return
	case MySQL:
		if tables, err := s.mariadb.Do("SHOW TABLES"); tables != "" || err != nil {
			ts.Fatalf("the store has tables: %s (%v)", tables, err)
		}
		return
	}
	if files, _ := os.ReadDir(filepath.Join(s.workDir, storeDir)); len(files) != 0 {
		ts.Fatalf("the store has files: %v", files)
	}
}

func condition(name string) (bool, error) {
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	if name == "mounts" {
		return exec.Command("unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "x", "/mnt").Run() == nil, nil
	}
	port, ok := strings.CutPrefix(name, "free:")
	if !ok {
		return false, fmt.Errorf("unknown condition %s", name)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return false, nil
	}
	return true, l.Close()
}

// pidOf returns the process id of a run, or the one in a file.
func pidOf(ts *testscript.TestScript, arg string) int {
	if r := of(ts).runs[arg]; r != nil {
		return r.cmd.Process.Pid
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(arg)))
	ts.Check(err)
	return pid
}
