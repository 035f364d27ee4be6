package redis

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

const prefix = "leaderrun"

// backend is a server under test, with a second client that reads and damages its data.
type backend struct {
	addr string
	raw  goredis.UniversalClient
}

func realBackend(t *testing.T) backend {
	s := script.StartRedis(t)
	return backend{addr: s.Addr, raw: rawClient(t, s.Addr)}
}

func rawClient(t testing.TB, addr string) *goredis.Client {
	// By default it would send a slow request again after 3 s: a DEBUG RELOAD during another saves what is loaded so far.
	c := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, ReadTimeout: networktest.Patience})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open returns a store on addr, which may have a user, as in ":secret@HOST:1".
func open(t *testing.T, addr string) *Store {
	t.Helper()
	return openWith(t, Options{URL: "redis://" + addr, Prefix: prefix})
}

func openWith(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := New(o)
	return networktest.Opened(t, s, err)
}

// Helpers that the tests of all networked stores use.
var (
	request, grant, renew, denied = networktest.Request, networktest.Grant, networktest.Renew, networktest.Denied
	bounded, awaits, endOf        = networktest.Bounded, must.Await, networktest.EndOf
)

// do sends one command, which must not fail, and returns the answer.
func (b backend) do(t *testing.T, args ...any) any {
	t.Helper()
	v, err := b.raw.Do(t.Context(), args...).Result()
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// names returns the ids of the server's run and of the history of its data.
func (b backend) names(t *testing.T) string {
	t.Helper()
	id := func(section, name string) string {
		info, _ := b.do(t, "INFO", section).(string)
		found := regexp.MustCompile(name + `:(\w{20})`).FindStringSubmatch(info)
		if found == nil {
			t.Fatalf("no %s in %q", name, info)
		}
		return found[1]
	}
	return id("server", "run_id") + id("replication", "master_replid")
}

// now is the server's clock in milliseconds.
func (b backend) now(t *testing.T) int64 {
	t.Helper()
	parts := b.do(t, "TIME").([]any)
	seconds, _ := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
	micros, _ := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	return seconds*1000 + micros/1000
}
