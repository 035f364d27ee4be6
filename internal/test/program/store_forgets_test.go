//go:build linux

package program

import (
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// alone is a command that records its token, and in another file whether another command is
// alive: the kernel keeps the flock as long as the command lives.
const alone = `exec 9>alone; flock -n 9 || echo "$LEADERRUN_TOKEN" >>overlaps; echo "$LEADERRUN_TOKEN" >>tokens; `

// TestStoreForgets makes the store lose the lease in every way a server can lose data, while
// a command runs and others want the lease. There are never two commands, and tokens grow.
func TestStoreForgets(t *testing.T) {
	const key = "leaderrun:leader:k"
	for name, forget := range map[string]func(*serverFault, *redis.Client) error{
		"killed, back at once and empty": func(f *serverFault, _ *redis.Client) error { f.server.Restart(); return nil },
		"flushed":                        func(_ *serverFault, c *redis.Client) error { return c.FlushAll(t.Context()).Err() },
		"evicted":                        func(_ *serverFault, c *redis.Client) error { return c.Del(t.Context(), key).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newServerFault(t)
			client := f.client()
			led := func() bool { return client.Get(t.Context(), key).Err() == nil }
			for range 3 {
				f.candidate("--wait=forever", "--rejoin")
			}
			const rounds = 50
			random, kept := rand.New(rand.NewPCG(1, 1)), 0
			for range rounds {
				eventually(t, "somebody leads", led)
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // any moment may be the wrong one
				before := len(f.lines("tokens"))
				if err := forget(f, client); err != nil {
					t.Fatal(err)
				}
				comer := exec.Command("leaderrun", "--store="+f.store, "--key="+f.key, "--ttl="+f.ttl.String(), "-q", "--", "bash", "-c", alone)
				comer.Dir = f.dir
				_ = comer.Run() // at once; that it is denied is usual, not promised
				eventually(t, "somebody leads again", led)
				if len(f.lines("tokens")) == before {
					kept++
				}
			}
			f.oneAtATime()
			t.Logf("the command outlived %d of %d losses", kept, rounds)
		})
	}
}
