package script

import (
	"io"
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

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Server is a server of a store.
type Server interface {
	// Stop freezes the server: its connections stay, nothing is answered. Cont continues it.
	Stop()
	Cont()
	// Kill ends the server with SIGKILL, and waits until it is gone. It may be called again.
	Kill()
	// Restart restarts it at the same address with its data, if any.
	Restart()
	// SetClock gives the server its own clock, see there.
	SetClock(clock string)
}

// RedisServer is one test's redis-server. It listens only on loopback, or on its own host, and
// ends with the test, even if the test process is killed.
type RedisServer struct {
	Addr string // 127.0.0.1:Port
	Port int
	process
}

// process is the program of a server.
type process struct {
	Dir     string // of its data, "" if it has none
	t       testing.TB
	command func(name string, args ...string) *exec.Cmd // nil: on this host
	name    string
	args    []string
	env     []string // added to this process's
	says    []string // it prints one of these when it listens
	cmd     *exec.Cmd
	gone    chan struct{} // closed once the process has been reaped
	out     *output
	clock   string // the file with its clock, "" if it uses this host's
	thaw    func() // continues the frozen children; nil if there are none
}

// redisProcess returns a process of redis-server without arguments.
func redisProcess(t testing.TB) process {
	t.Helper()
	need(t, "redis-server")
	return process{t: t, name: "redis-server", says: []string{"Ready to accept connections", "Sentinel ID is"}}
}

// startPatience is how long a server may take to listen on a busy machine.
const startPatience = 30 * time.Second

// StartRedis starts a redis-server without persistence and waits until it listens. args are
// more arguments for it, for instance "--requirepass", "secret". Without the program the test
// is skipped, or fails if CI is set.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	return startServer(t, dir, func(port string) []string { return append(basics(t, port, dir), args...) })
}

// basics returns the arguments of every server.
func basics(t testing.TB, port, dir string) []string {
	return []string{"--port", port, "--bind", hostOf(t), "--protected-mode", "no", "--save", "", "--appendonly", "no", "--dir", dir}
}

// hostOf returns where the servers of a test listen: on loopback, or where a program says that
// starts the same servers.
func hostOf(t testing.TB) string {
	if t, ok := t.(interface{ Host() string }); ok {
		return t.Host()
	}
	return "127.0.0.1"
}

// freeAddr is FreePort with the host.
func freeAddr(t testing.TB) string {
	return net.JoinHostPort(hostOf(t), strconv.Itoa(FreePort(t)))
}

// startServer starts a server on a free port, with the arguments that args returns for it.
func startServer(t testing.TB, dir string, args func(port string) []string) *RedisServer {
	t.Helper()
	s := &RedisServer{process: redisProcess(t)}
	s.Dir = dir
	t.Cleanup(s.Kill)
	for range 5 { // another process may take the port
		s.Port = FreePort(t)
		s.Addr = net.JoinHostPort(hostOf(t), strconv.Itoa(s.Port))
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
	short(t, program)
	if _, err := exec.LookPath(program); err != nil {
		missing(t, program+" is not installed: apt-get install "+pkg)
	}
}

// short skips the test with -short.
func short(t testing.TB, program string) {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skip("it needs " + program)
	}
}

// missing skips the test, or fails it if CI is set.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Pid returns the process id of the running server.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// all returns the server and its children, of which Postgres has one per connection. It stops the
// server, so that it starts no others.
func (p *process) all() []int {
	signalAll(syscall.SIGSTOP, p.Pid())
	awaitStop(p.Pid())
	children, _ := proc.ChildrenOf(p.Pid())
	return append(children, p.Pid())
}

func (p *process) Stop() {
	p.t.Helper()
	all := p.all()
	if len(all) > 1 && p.thaw == nil {
		signalAll(syscall.SIGSTOP, all...)
		// Frozen children do not notice that this process is gone. This program does, by the end
		// of its input, and continues them, so that they end.
		thaw := exec.Command("sh", "-c", `read -r _; kill -CONT "$@"`, "sh")
		for _, pid := range all {
			thaw.Args = append(thaw.Args, strconv.Itoa(pid))
		}
		input, err := thaw.StdinPipe()
		must.Succeed(p.t, err)
		must.Succeed(p.t, thaw.Start())
		p.thaw = func() {
			_ = input.Close()
			_ = thaw.Wait() // an error means that some processes are gone
		}
	}
}

func (p *process) Cont() {
	if p.thaw != nil {
		p.thaw()
		p.thaw = nil
	} else if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // fails only if it has ended
	}
}

func (p *process) Kill() {
	defer p.Cont()
	if p.cmd == nil {
		return
	}
	defer func() { p.cmd = nil }()
	select {
	case <-p.gone: // it has ended by itself, and its id may belong to another process
		return
	default:
	}
	all := p.all()
	signalAll(syscall.SIGKILL, all...)
	<-p.gone
	if !await(func() bool { return !slices.ContainsFunc(all, Lives) }) {
		p.t.Errorf("%s still lives:\n%s", p.name, describe(all))
	}
}

func (p *process) Restart() {
	p.t.Helper()
	p.Kill()
	if !startAgain(p.start) {
		p.t.Fatalf("%s does not start again:\n%s", p.name, p.out)
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
	p.out = newOutput(p.t, p.says...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.gone = launch(p.t, p.cmd)
}

// mustStart is start for a port that nobody else can take.
func (p *process) mustStart() {
	p.t.Helper()
	if !p.start() {
		p.t.Fatalf("%s does not start:\n%s", p.name, p.out)
	}
}

// serves waits until the server listens, and kills one that does not.
func (p *process) serves() bool {
	if !p.out.listens(p.gone) {
		p.Kill()
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
	also io.Writer // gets all of it, too, if this is no test

	mu   sync.Mutex
	text strings.Builder
	over bool // seen is closed
}

func newOutput(t testing.TB, says ...string) *output {
	o := &output{says: says, seen: make(chan struct{}), also: io.Discard}
	if !testing.Testing() {
		o.also = t.Output()
	}
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	_, _ = o.also.Write(p)
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
