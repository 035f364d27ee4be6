//go:build linux

package program

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A run by hand may take the TTL of a report: go test -run TestServer . -ttl 30s
var serverTTL = flag.Duration("ttl", 3*time.Second, "TTL in the tests of servers that are dark or full; some take more at least")

// alone is a command that records its token in the file tokens, and also in overlaps if another
// command of the key is alive: the kernel keeps the flock as long as the command lives.
const alone = `exec 9>alone; flock -n 9 || echo "$LEADERRUN_TOKEN" >>overlaps; echo "$LEADERRUN_TOKEN" >>tokens; `

// rivals are candidates for one key and the commands of its leaders.
type rivals struct {
	t     *testing.T
	dir   string
	store string
	key   string
	ttl   time.Duration
	host  faultnet.Host
}

// candidate starts leaderrun with a command that does what alone says, and then sleeps.
func (f *rivals) candidate(args ...string) *exec.Cmd {
	f.t.Helper()
	args = append([]string{"--store=" + f.store, "--key=" + f.key, "--ttl=" + f.ttl.String(), "-vv"}, args...)
	cmd := f.host.Command("leaderrun", append(args, "--", "bash", "-c", alone+"exec sleep 600")...)
	log, err := os.CreateTemp(f.dir, "log")
	must.Succeed(f.t, err)
	defer log.Close()
	cmd.Dir, cmd.Stderr = f.dir, log
	must.Succeed(f.t, cmd.Start())
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && f.t.Failed() {
			f.t.Logf("%s\n%s", strings.Join(args, " "), text)
		}
	})
	return cmd
}

func (f *rivals) lines(name string) []string {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// started waits until n commands have been started in all.
func (f *rivals) started(n int, within time.Duration) {
	f.t.Helper()
	for began := time.Now(); len(f.lines("tokens")) < n; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > within {
			f.t.Fatalf("%d commands were started within %s, want %d", len(f.lines("tokens")), within, n)
		}
	}
}

// oneAtATime checks what is promised whatever the server does.
func (f *rivals) oneAtATime() {
	f.t.Helper()
	if overlaps := f.lines("overlaps"); len(overlaps) > 0 {
		f.t.Errorf("commands that were not alone: %v", overlaps)
	}
	last := 0
	for _, line := range f.lines("tokens") {
		token, err := strconv.Atoi(line)
		if err != nil || token <= last {
			f.t.Errorf("token %q after %d", line, last)
		}
		last = token
	}
}
