//go:build linux

package program

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

// alone is a command that records its token, and in another file whether another command is
// alive: the kernel keeps the flock as long as the command lives.
const alone = `exec 9>alone; flock -n 9 || echo "$LEADERRUN_TOKEN" >>overlaps; echo "$LEADERRUN_TOKEN" >>tokens; `

// TestStoreForgets makes the store lose the lease in every way a server can lose data, while
// a command runs and others want the lease. There are never two commands, and tokens grow.
func TestStoreForgets(t *testing.T) {
	t.Parallel()
	const key = "leaderrun:leader:k"
	for name, forget := range map[string]func(*script.RedisServer, *redis.Client) error{
		"killed, back at once and empty": func(s *script.RedisServer, _ *redis.Client) error { s.Restart(); return nil },
		"flushed":                        func(_ *script.RedisServer, c *redis.Client) error { return c.FlushAll(t.Context()).Err() },
		"evicted":                        func(_ *script.RedisServer, c *redis.Client) error { return c.Del(t.Context(), key).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := script.StartRedis(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
			defer client.Close()
			f := forgetting{t: t, dir: t.TempDir(), server: server, led: func() bool {
				return client.Get(t.Context(), key).Err() == nil
			}}
			f.run(50, func() error { return forget(server, client) })
		})
	}
}

type forgetting struct {
	t      *testing.T
	dir    string
	server *script.RedisServer
	led    func() bool
}

func (f forgetting) candidate(args ...string) *exec.Cmd {
	cmd := exec.Command("leaderrun", append([]string{"--store=redis://" + f.server.Addr, "--key=k", "--ttl=3s", "-q"}, args...)...)
	cmd.Dir = f.dir
	return cmd
}

func (f forgetting) run(rounds int, forget func() error) {
	t := f.t
	for range 3 {
		cmd := f.candidate("--wait=forever", "--rejoin", "--", "bash", "-c", alone+"exec sleep 600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		})
	}
	random := rand.New(rand.NewPCG(1, 1))
	kept := 0
	for range rounds {
		eventually(t, "somebody leads", f.led)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // any moment may be the wrong one
		before := len(f.lines("tokens"))
		if err := forget(); err != nil {
			t.Fatal(err)
		}
		_ = f.candidate("--", "bash", "-c", alone).Run() // at once; that it is denied is usual, not promised
		eventually(t, "somebody leads again", f.led)
		if len(f.lines("tokens")) == before {
			kept++
		}
	}
	if overlaps := f.lines("overlaps"); len(overlaps) > 0 {
		t.Errorf("commands that were not alone: %v", overlaps)
	}
	last := 0
	for _, line := range f.lines("tokens") {
		token, err := strconv.Atoi(line)
		if err != nil || token <= last {
			t.Errorf("token %q after %d", line, last)
		}
		last = token
	}
	t.Logf("the command outlived %d of %d losses", kept, rounds)
}

func (f forgetting) lines(name string) []string {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return strings.Fields(string(text))
}
