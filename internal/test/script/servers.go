package script

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// RedisServer is one test's redis-server. It listens only on loopback, or on its own host, and
// ends with the test, even if the test process is killed.
type RedisServer struct {
	Addr string // 127.0.0.1:Port
	Port int
	process
	clock string // the file with its clock, "" if it uses this host's
}

// process is the program of a server.
type process struct {
	t       testing.TB
	command func(name string, args ...string) *exec.Cmd // nil: on this host
	name    string
	args    []string
	env     []string // added to this process's
	says    []string // it prints one of these when it listens
	kill    func()   // ends the server with all its processes; nil: Kill
	cmd     *exec.Cmd
	gone    chan struct{} // closed once the process has been reaped
	out     *output
}

// redisProcess returns a process of redis-server without arguments.
func redisProcess(t testing.TB) process {
	t.Helper()
	need(t, "redis-server")
	return process{t: t, name: "redis-server", says: []string{"Ready to accept connections", "Sentinel ID is"}}
}

// startPatience is how long a server may take to listen on a busy machine.
const startPatience = 15 * time.Second

// StartRedis starts a redis-server without persistence and waits until it listens. args are
// more arguments for it, for instance "--requirepass", "secret". Without the program the test
// is skipped, or fails if CI is set.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	return startServer(t, func(port string) []string { return append(basics(port, dir), args...) })
}

// basics returns the arguments of every server.
func basics(port, dir string) []string {
	return []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
}

// startServer starts a server on a free port, with the arguments that args returns for it.
func startServer(t testing.TB, args func(port string) []string) *RedisServer {
	t.Helper()
	s := &RedisServer{process: redisProcess(t)}
	t.Cleanup(s.Kill)
	for range 5 { // another process may take the port
		s.Port = FreePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		s.args = args(strconv.Itoa(s.Port))
		if s.start() {
			return s
		}
	}
	t.Fatalf("redis-server does not start:\n%s", s.out)
	return nil
}

// need skips the test without a program, or fails it if CI is set. It also skips it with
// -short, which is for machines without servers.
func need(t testing.TB, program string) {
	t.Helper()
	needPackage(t, program, program)
}

// needPackage is need for a program whose package has another name.
func needPackage(t testing.TB, program, pkg string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs " + program)
	}
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	missing := program + " is not installed: apt-get install " + pkg
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// Pid returns the process id of the running server.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// Stop freezes the server: its connections stay, nothing is answered.
func (p *process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	awaitStop(p.Pid())
}

// Cont continues a frozen server.
func (p *process) Cont() { p.signal(syscall.SIGCONT) }

// Kill ends the server with SIGKILL and waits until it is gone. It may be
// called again.
func (p *process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.gone
	p.cmd = nil
}

// end kills the server, of whatever kind it is.
func (p *process) end() {
	if p.kill == nil {
		p.Kill()
	} else {
		p.kill()
	}
}

// Restart restarts the server on the same port, with the data in its directory, if any.
func (p *process) Restart() {
	p.t.Helper()
	p.end()
	if !startAgain(p.start) {
		p.t.Fatalf("%s does not start again:\n%s", p.name, p.out)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

// start starts the server and reports whether it listens. It does not if its port is in use.
func (p *process) start() bool {
	p.t.Helper()
	p.launch()
	return p.serves()
}

func (p *process) launch() {
	p.t.Helper()
	command := p.command
	if command == nil {
		command = exec.Command
	}
	p.cmd = command(p.name, p.args...)
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = dieWithParent()
	}
	p.cmd.Env = append(os.Environ(), p.env...)
	p.out = newOutput(p.says...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.gone = launch(p.t, p.cmd)
}

// serves waits until the server listens, and kills one that does not.
func (p *process) serves() bool {
	if !p.out.listens(p.gone) {
		p.end()
		return false
	}
	return true
}

// launch starts a server's process; gone is closed once it has been reaped.
func launch(t testing.TB, cmd *exec.Cmd) (gone chan struct{}) {
	t.Helper()
	started, gone := make(chan error), make(chan struct{})
	go func() {
		// The kernel kills the server when the thread that started it ends. So that thread
		// waits here for the end of the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			fakeclock.Forget(cmd.Process.Pid)
			close(gone)
		}
	}()
	must.Succeed(t, <-started)
	return gone
}

// startAgain repeats a start, since it may take time until the port is free again.
func startAgain(start func() bool) bool {
	for until := time.Now().Add(startPatience); time.Now().Before(until); {
		if start() {
			return true
		}
	}
	return false
}

// output keeps a server's output, and closes seen when the server says that it listens. An
// answer on its port would not prove that: another server may have the port.
type output struct {
	says []string // the server prints one of these when it listens
	seen chan struct{}

	mu   sync.Mutex
	text strings.Builder
	over bool // seen is closed
}

func newOutput(says ...string) *output { return &output{says: says, seen: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	text := o.text.String()
	if !o.over && slices.ContainsFunc(o.says, func(line string) bool { return strings.Contains(text, line) }) {
		o.over = true
		close(o.seen)
	}
	return len(p), nil
}

// listens waits until the server listens, and reports false if it ends before.
func (o *output) listens(gone <-chan struct{}) bool {
	select {
	case <-o.seen:
		return true
	case <-gone:
	case <-time.After(startPatience):
	}
	return false
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
