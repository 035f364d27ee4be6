package guard

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// This test binary can also be the guard, and an ender, which notes what it is told and what it sees.
func init() {
	Dispatch()
	if _, ender := os.LookupEnv(EnderMarker); !ender {
		return
	}
	told, _ := io.ReadAll(os.Stdin)
	killBy, text, ok := DecodeEnder(told)
	pipes := 0
	for fd := range 4096 {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); strings.HasPrefix(to, "pipe:") {
			pipes++
		}
	}
	var others []string
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		environ, _ := os.ReadFile(file)
		if bytes.Contains(environ, []byte("TREE="+os.Getenv("TREE"))) && file != fmt.Sprintf("/proc/%d/environ", os.Getpid()) {
			others = append(others, file)
		}
	}
	name, _ := os.ReadFile("/proc/self/comm")
	note := fmt.Sprintf("%d %s %t, arguments %q, name %q, alive %q, %d pipe", killBy, text, ok, os.Args, name, others, pipes)
	_ = os.WriteFile(os.Getenv("ENDER"), []byte(note), 0o600)
	os.Exit(0)
}

// another returns a guard that is not started yet, with these descriptors from 3 on.
func another(marker string, files ...*os.File) (cmd *exec.Cmd, said *bytes.Buffer) {
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append([]string{Marker + "=" + marker}, Settings...)
	said = &bytes.Buffer{}
	cmd.Stderr, cmd.ExtraFiles = said, files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, said
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must.Succeed(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// started is a guard at work.
type started struct {
	cmd             *exec.Cmd
	orders, reports *os.File
	leash           *os.File
}

func start(t *testing.T, change func(*exec.Cmd)) *started {
	t.Helper()
	theirOrders, orders := pipe(t)
	reports, theirReports := pipe(t)
	theirLeash, leash := pipe(t)
	cmd, said := another("3", theirOrders, theirReports, theirLeash, leash)
	change(cmd)
	must.Succeed(t, cmd.Start())
	theirOrders.Close()
	theirReports.Close()
	theirLeash.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said.Len() > 0 {
			t.Error(said)
		}
	})
	must.Succeed(t, reports.SetReadDeadline(time.Now().Add(10*time.Second)))
	return &started{cmd: cmd, orders: orders, reports: reports, leash: leash}
}

func (g *started) order(t *testing.T, kind OrderKind, value int64, c *Command) {
	t.Helper()
	if _, err := g.orders.Write(EncodeOrder(kind, value, c)); err != nil {
		t.Fatal(err)
	}
}

// next returns the value of the next report, which must be of that kind. A kill may take a
// while.
func (g *started) next(t *testing.T, kind ReportKind) int64 {
	t.Helper()
	b := make([]byte, ReportLen)
	if _, err := g.reports.Read(b); err != nil {
		t.Fatalf("%v, want report %d", err, kind)
	}
	r := DecodeReport(b)
	if r.Kind == ReportKilling && kind == ReportGone {
		return g.next(t, kind)
	}
	if r.Kind != kind {
		t.Fatalf("report %+v, want %d", r, kind)
	}
	return r.Value
}

// ends fails the test unless the guard ends by itself.
func (g *started) ends(t *testing.T) {
	t.Helper()
	if _, err := g.reports.Read(make([]byte, ReportLen)); err != io.EOF {
		t.Errorf("the guard goes on: %v", err)
	}
}

// kills makes the guard kill the tree, parts of which may outlive the command for a moment.
func (g *started) kills(t *testing.T) {
	t.Helper()
	g.order(t, OrderKill, 0, nil)
	for b := make([]byte, ReportLen); DecodeReport(b).Kind != ReportGone; {
		if _, err := g.reports.Read(b); err != nil {
			t.Fatal(err)
		}
	}
}

func shell(script string) *Command {
	return &Command{StartBy: far(), Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()}
}

// await waits for a condition.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s: " + what)
		}
	}
}

// state returns the letter for a process's state in /proc.
func state(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(1, len(rest))]
}

func far() int64 { return proc.Now() + int64(time.Minute) }

// family is a command and a descendant, which notes its id in the returned file, in its group.
func family(t *testing.T) (c *Command, child func() int) {
	t.Helper()
	file := t.TempDir() + "/child"
	return shell("sleep 60 & echo $! >" + file + "; wait"), func() (pid int) {
		await(t, "the child runs", func() bool {
			b, _ := os.ReadFile(file) // it may not be there yet, or be empty
			_, _ = fmt.Sscan(string(b), &pid)
			return pid != 0
		})
		return pid
	}
}

// holdExecs creates a script whose exec hangs until release is called, like on a file system
// that does not answer. The script creates the file ran.
func holdExecs(t *testing.T) (script, ran string, release func()) {
	t.Helper()
	dir := t.TempDir()
	script, ran = dir+"/script", dir+"/ran"
	must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\necho >"+ran+"\nexec sleep 60\n"), 0o755))
	held, err := os.Open(script)
	must.Succeed(t, err)
	t.Cleanup(func() { held.Close() })
	// An open of the file waits until this lease (fcntl) is given up, for 45 s at most.
	const setLease = 1024
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, held.Fd(), setLease, syscall.F_WRLCK); errno != 0 {
		t.Fatal(errno)
	}
	return script, ran, func() { held.Close() }
}

// usedLittle checks that a guard that ends, and lived for a second, has slept most of the time.
func (g *started) usedLittle(t *testing.T) {
	t.Helper()
	g.ends(t)
	_ = g.cmd.Wait()
	if used := g.cmd.ProcessState.UserTime() + g.cmd.ProcessState.SystemTime(); used > 500*time.Millisecond {
		t.Errorf("it used %s of the processor in a second", used)
	}
}

// field returns the i-th field after the name, from 0 on, in /proc/PID/stat.
func field(t *testing.T, pid, i int) int {
	t.Helper()
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= i {
		return -1
	}
	n, err := strconv.Atoi(fields[i])
	must.Succeed(t, err)
	return n
}

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may do this")
	}
}
