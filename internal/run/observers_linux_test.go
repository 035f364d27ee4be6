package run

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// leaderrun keeps no end of the command's pipes open, so a reader of its output sees EOF.
// A run with --rejoin keeps them for the next command.
func TestOutputIsTheCommands(t *testing.T) {
	for _, rejoin := range []bool{false, true} {
		r := newTrial(t, `exec >&- 2>&-; echo closed >$DIR/closed; exec sleep 60`)
		if r.Rejoin = rejoin; rejoin {
			r.Wait = candidate.Forever
		}
		read, write, err := os.Pipe()
		must.Succeed(t, err)
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

// Each hook runs at its event, with the right environment.
func TestHooks(t *testing.T) {
	hook := func(name string) []string {
		return []string{"sh", "-c", `env | grep ^LEADERRUN_ | grep -v TOKEN | sort >$DIR/` + name + `; exit 1`}
	}
	const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`
	r := newTrial(t, "exit 2")
	r.OnAcquire, r.OnEnd, r.OnSkip, r.OnLost = hook("acquire"), hook("end"), hook("skip"), []string{"/no/such/program"}
	r.want(r.run(), candidate.Exited, 2, -1)
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
	leader.OnSkip = hook("skip") // not called: it does not skip
	leader.start()
	leader.await("leads", "leads")
	skips := newTrial(t, "")
	skips.Store, skips.OnSkip, skips.OnEnd = leader.Store, hook("skip"), hook("end")
	o := skips.run()
	skips.want(o, candidate.Denied, -1, -1)
	if got := skips.file("skip"); !regexp.MustCompile("^LEADERRUN_EVENT=skip\n"+holder+"LEADERRUN_KEY=k\nLEADERRUN_OUTCOME=denied\n$").MatchString(got) || skips.file("end") != "" {
		t.Errorf("skip got:\n%s\nend got:\n%s", got, skips.file("end"))
	}
	leader.signal(syscall.SIGTERM)
	leader.end()
}

// A hook that succeeds is not logged.
func TestSuccessfulHooksAreSilent(t *testing.T) {
	r := newTrial(t, "exit 0")
	r.OnAcquire = []string{"sh", "-c", "echo ran >$DIR/ran"}
	if r.want(r.run(), candidate.Exited, 0, -1); r.stderr != "" || r.file("ran") != "ran\n" {
		t.Errorf("%q, it said:\n%s", r.file("ran"), r.stderr)
	}
}

// A further order to stop kills a hook that the run waits for.
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
	for _, says := range []string{"--on-acquire failed: killed, because leaderrun ends", "--on-end was not run, because leaderrun ends"} {
		if !strings.Contains(r.stderr, says) {
			t.Errorf("not said: %s\n%s", says, r.stderr)
		}
	}
}

// Metrics are written and served, each if asked for.
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
	must.Succeed(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	served := newTrial(t, "echo leads >$DIR/leads; exec sleep 60")
	served.MetricsListen = addr
	served.start()
	served.await("leads", "leads")
	answer, err := http.Get("http://" + addr + "/metrics")
	must.Succeed(t, err)
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || !strings.Contains(string(text), `leader_acquired_total{key_class="k",key="k"} 1`) {
		t.Errorf("served, %v:\n%s", err, text)
	}
	served.signal(syscall.SIGTERM)
	served.end()
}

// A service manager, if there is one, is notified of a run.
func TestServiceManager(t *testing.T) {
	r := newTrial(t, "exit 0")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(r.dir, "notify"), Net: "unixgram"})
	must.Succeed(t, err)
	defer socket.Close()
	r.env = append(r.env, "NOTIFY_SOCKET="+filepath.Join(r.dir, "notify"))
	r.run()
	said := make([]byte, 4096)
	_ = socket.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := socket.Read(said); err != nil || n == 0 {
		t.Error(err)
	}
}

// On a terminal a standby shows whom it waits for.
func TestStandbyLine(t *testing.T) {
	leader := newTrial(t, "echo leads >$DIR/leads; exec sleep 60")
	leader.start()
	leader.await("leads", "leads")
	standby := newTrial(t, "exit 4")
	standby.Store, standby.Wait = leader.Store, candidate.Forever
	standby.start()
	standby.await("stderr", "k")
	leader.signal(syscall.SIGTERM)
	leader.end()
	standby.want(standby.end(), candidate.Exited, 4, -1)
}
