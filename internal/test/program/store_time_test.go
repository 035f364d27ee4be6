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

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// A run by hand may take the TTL of a report: go test -run TestServer . -ttl 30s
var serverTTL = flag.Duration("ttl", 3*time.Second, "TTL in the tests of servers that step their clock, come back old or empty, or are full; some take more at least")

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

// serverFault is one key on one server.
type serverFault struct {
	rivals
	server *script.RedisServer
}

func newServerFault(t *testing.T) *serverFault {
	t.Parallel()
	server := script.StartRedis(t)
	return &serverFault{rivals{t: t, dir: t.TempDir(), store: "redis://" + server.Addr, key: "k", ttl: *serverTTL}, server}
}

// candidate starts leaderrun with a command that does what alone says, and then sleeps.
func (f *rivals) candidate(args ...string) *exec.Cmd {
	f.t.Helper()
	args = append([]string{"--store=" + f.store, "--key=" + f.key, "--ttl=" + f.ttl.String(), "-v"}, args...)
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

// standby starts a candidate and returns when it waits for its turn.
func (f *serverFault) standby() {
	f.t.Helper()
	f.candidate("--wait=forever", "--rejoin")
	client := f.client()
	eventually(f.t, "a standby waits", func() bool {
		clients, err := client.ClientList(f.t.Context()).Result()
		return err == nil && strings.Count(clients, "cmd=blpop") == 2 // the leader listens, too
	})
}

func (f *serverFault) client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: f.server.Addr, MaxRetries: -1})
	f.t.Cleanup(func() { _ = client.Close() })
	return client
}

// comers starts n candidates one after the other. Each tries for a while.
func (f *rivals) comers(n int) {
	f.t.Helper()
	for range n {
		f.candidate("--wait=" + (f.ttl / 2).String())
		time.Sleep(f.ttl / 30)
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

// The wall clock of the server's host steps while a healthy leader leads. By that clock the
// lease has expired, for waiting and for new candidates; or it seems to expire before the holder
// renews it, if the step is less than the rest of the lease.
func TestServerStepsItsClock(t *testing.T) {
	const waits, comes = "a standby waits", "a candidate comes"
	less := "+" + strconv.FormatFloat((*serverTTL*5/6).Seconds(), 'f', 3, 64)
	for _, c := range []struct{ who, clock string }{{waits, "+60s"}, {waits, "-60s"}, {comes, "+60s"}, {comes, "-60s"}, {comes, less}} {
		t.Run(c.who+", "+c.clock, func(t *testing.T) {
			f := newServerFault(t)
			f.server.SetClock("+0")
			f.candidate()
			f.started(1, patience)
			if c.who == waits {
				f.standby()
			}
			f.server.SetClock(c.clock)
			if c.who == comes { // it knows only that clock
				f.comers(5)
			}
			time.Sleep(2 * *serverTTL)
			f.oneAtATime()
			if tokens := f.lines("tokens"); len(tokens) != 1 {
				t.Errorf("%d commands were started, want only the leader's, which is healthy", len(tokens))
			}
		})
	}
}

// A server is killed and comes back with a snapshot from before the grant of the lease, or
// from before its last renewal.
func TestServerComesBackOld(t *testing.T) {
	for name, old := range map[string]func(f *serverFault, save func()){
		"before the grant": func(f *serverFault, save func()) {
			_ = exec.Command("leaderrun", "--store=redis://"+f.server.Addr, "--key=k", "-q", "--", "true").Run()
			save()
			f.candidate("--wait=forever", "--rejoin")
			f.started(1, patience)
		},
		"before the renewal": func(f *serverFault, save func()) {
			f.candidate("--wait=forever", "--rejoin")
			f.started(1, patience)
			save()
			time.Sleep(*serverTTL * 3 / 2)
		},
	} {
		for trial := range 4 {
			t.Run(name+"/"+strconv.Itoa(trial), func(t *testing.T) {
				f := newServerFault(t)
				old(f, func() {
					must.Succeed(t, f.client().Save(t.Context()).Err())
				})
				f.server.Kill()
				f.comers(5)
				f.server.Restart()
				f.comers(3)
				time.Sleep(2 * *serverTTL)
				f.oneAtATime()
			})
		}
	}
}

// The server's clock goes back by an hour, so that the lease of a dead holder seems to last
// an hour longer.
func TestServerStepsBackAfterTheHolderDied(t *testing.T) {
	for name, others := range map[string]func(*serverFault){
		"a standby waits":   func(f *serverFault) { f.standby() },
		"a candidate comes": func(*serverFault) {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newServerFault(t)
			f.server.SetClock("+0")
			holder := f.candidate()
			f.started(1, patience)
			others(f)
			must.Succeed(t, holder.Process.Kill())
			_ = holder.Wait()
			f.server.SetClock("-1h")
			if name == "a candidate comes" {
				f.candidate("--wait=forever")
			}
			f.started(2, 2**serverTTL)
			f.oneAtATime()
		})
	}
}
