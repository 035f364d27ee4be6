package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// allowed is by how much clocks may differ.
const allowed = 305 * time.Millisecond

// found returns an examination's finding about one subject.
func found(t *testing.T, s *Store, subject string, outage time.Duration) lease.Finding {
	t.Helper()
	return networktest.Found(t, s.Examine(bounded(t), outage, allowed), subject)
}

var finds = networktest.Finds

func TestExamine(t *testing.T) {
	b := realBackend(t)
	s := open(t, b.addr)
	finds(t, found(t, s, "server", 0), lease.Fine, " at "+b.addr)
	finds(t, found(t, s, "role", 0), lease.Fine, "primary without replicas")
	finds(t, found(t, s, "eviction", 0), lease.Fine, "noeviction")
	finds(t, found(t, s, "persistence", 0), lease.Doubtful, "no append-only file")

	b.do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	finds(t, found(t, s, "eviction", 0), lease.Fine, "without a limit")
	b.do(t, "CONFIG", "SET", "maxmemory", "100mb")
	finds(t, found(t, s, "eviction", 0), lease.Bad, "may be evicted")
	b.do(t, "CONFIG", "SET", "appendonly", "yes")
	finds(t, found(t, s, "persistence", 0), lease.Fine, "append-only file")
	b.do(t, "REPLICAOF", "127.0.0.1", "1")
	finds(t, found(t, s, "role", 0), lease.Bad, "a replica")
}

// The fields are those of the servers' own INFO.
func TestProduct(t *testing.T) {
	for want, fields := range map[string]map[string]string{
		"redis 7.0.15":     {"redis_version": "7.0.15"},
		"valkey 8.1.0":     {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"},
		"dragonfly 1.21.2": {"redis_version": "7.2.0", "dragonfly_version": "df-v1.21.2"},
	} {
		if got := product(func(_, name string) string { return fields[name] }); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExamineWithoutTheRight(t *testing.T) {
	server := script.StartRedis(t, user("cron on >sesame ~leaderrun:* -@all "+strings.Replace(rights, "+info ", "", 1))...)
	finds(t, found(t, open(t, "cron:sesame@"+server.Addr), "server", 0), lease.Doubtful, "cannot be examined")
}

func TestExamineNoServer(t *testing.T) {
	finds(t, found(t, open(t, "127.0.0.1:1"), "server", 0), lease.Bad, "connection refused")
}

func TestExamineSentinels(t *testing.T) {
	t.Parallel()
	set := script.StartSentinels(t, 1, script.Servers{})
	s := openSentinels(t, set.Addrs())
	finds(t, found(t, s, "role", 0), lease.Doubtful, "replicas: 1, without min-replicas-to-write")
	finds(t, found(t, s, "replica clocks", 0), lease.Fine, "305ms is allowed")
	finds(t, found(t, s, "sentinels", time.Hour), lease.Fine, "quorum")
	finds(t, found(t, s, "sentinels", time.Millisecond), lease.Doubtful, "failover takes")
}

func TestExamineReplicas(t *testing.T) {
	t.Parallel()
	set := script.StartSentinels(t, 1, script.Servers{})
	s := openSentinels(t, set.Addrs())
	raw := rawClient(t, set.Primary.Addr)
	must.Succeed(t, raw.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	finds(t, found(t, s, "role", 0), lease.Fine, "without enough of them it takes no writes")
	for _, clock := range []string{"+20s", "-20s"} {
		set.Replicas[0].SetClock(clock)
		awaits(t, "replica that is back", func() bool { return strings.Contains(raw.Info(t.Context(), "replication").Val(), "slave0:") })
		finds(t, found(t, s, "replica clocks", 0), lease.Doubtful, set.Replicas[0].Addr+" and the primary's are ")
	}
	set.Replicas[0].Stop()
	finds(t, found(t, s, "replica clocks", 0), lease.Doubtful, "one cannot be read: ")
}

func TestJudgeSentinels(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings map[string]string
		verdict  lease.Verdict
		text     string
	}{
		{"three", map[string]string{"down-after-milliseconds": "5000", "num-other-sentinels": "2", "quorum": "2", "flags": "master"}, lease.Fine, "3, quorum 2; a failover takes about 7s"},
		{"slow", map[string]string{"down-after-milliseconds": "30000", "num-other-sentinels": "2", "flags": "master"}, lease.Doubtful, "about 32s"},
		{"two", map[string]string{"down-after-milliseconds": "1000", "num-other-sentinels": "1", "flags": "master"}, lease.Doubtful, "2, quorum"},
		{"down", map[string]string{"down-after-milliseconds": "1000", "num-other-sentinels": "2", "flags": "s_down,master"}, lease.Bad, "for down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			finds(t, judgeSentinels(tt.settings, "mymaster", 8700*time.Millisecond), tt.verdict, tt.text)
		})
	}
}
