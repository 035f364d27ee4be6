package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// probe is the key whose server is examined if there are several.
const probe = "leaderrun-doctor"

// Examine implements [lease.Examiner]. It needs the right +info and, at sentinels,
// +sentinel|master, and reports if it lacks them.
func (s *Store) Examine(ctx context.Context, outage, margin time.Duration) []lease.Finding {
	findings := s.examineServer(ctx, margin)
	if s.servers.kind == sentinel {
		findings = append(findings, s.examineSentinels(ctx, outage))
	}
	return findings
}

func (s *Store) examineServer(ctx context.Context, margin time.Duration) []lease.Finding {
	v, err := s.servers.do(ctx, "info", s.leaseKey(probe), func(c *redis.Client) (any, error) {
		info := c.InfoMap(ctx)
		return info, info.Err()
	})
	if err != nil {
		return []lease.Finding{notExamined("server", err, "grant this user +info: without it runs do not see, either, that another server has taken the place of the one that granted")}
	}
	info := v.(*redis.InfoCmd)
	findings := []lease.Finding{
		lease.Passed("server", product(info.Item)+" at "+s.servers.place(s.leaseKey(probe))),
		examineRole(info), examineEviction(info), examinePersistence(info),
	}
	if replicas := replicasOf(info); len(replicas) > 0 {
		findings = append(findings, s.examineClocks(ctx, replicas, margin))
	}
	return findings
}

// product returns the server's name and version. Other servers with Redis' protocol also
// have a redis_version: that of the Redis with which they are compatible.
func product(item func(section, name string) string) string {
	for _, name := range []string{"valkey", "dragonfly"} {
		if version := item("Server", name+"_version"); version != "" {
			return name + " " + strings.TrimPrefix(version, "df-v") // as Dragonfly writes it
		}
	}
	return "redis " + item("Server", "redis_version")
}

// notExamined returns the finding that something cannot be examined.
func notExamined(subject string, err error, hint string) lease.Finding {
	text := "cannot be examined: " + err.Error()
	if failure, ok := errors.AsType[*lease.StoreError](err); ok && !failure.Permanent {
		return lease.Failed(subject, text, failure.Hint)
	}
	return lease.Warned(subject, text, hint)
}

func examineRole(info *redis.InfoCmd) lease.Finding {
	const subject = "role"
	replicas, _ := strconv.Atoi(info.Item("Replication", "connected_slaves"))
	switch {
	case info.Item("Replication", "role") != "master":
		return lease.Failed(subject, "a replica: it grants nothing", "name the server it follows, or the sentinels of both")
	case replicas > 0 && info.Item("Replication", "min_slaves_good_slaves") == "": // which shows the setting
		return lease.Warned(subject, fmt.Sprintf("primary, replicas: %d, without min-replicas-to-write: cut off from them it goes on granting for as long as the cut lasts", replicas),
			"CONFIG SET min-replicas-to-write 1, and have the job's sink check the token (docs/fencing.md)")
	case replicas > 0:
		return lease.Passed(subject, fmt.Sprintf("primary, replicas: %d; without enough of them it takes no writes. They follow behind: a failover can lose the newest grant (docs/fencing.md)", replicas))
	}
	return lease.Passed(subject, "primary without replicas")
}

// replicasOf returns the addresses of the replicas that a server lists.
func replicasOf(info *redis.InfoCmd) (addrs []string) {
	for i := 0; ; i++ {
		text := info.Item("Replication", fmt.Sprintf("slave%d", i))
		if text == "" {
			return addrs
		}
		fields := map[string]string{}
		for _, field := range strings.Split(text, ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		addrs = append(addrs, net.JoinHostPort(fields["ip"], fields["port"]))
	}
}

// examineClocks compares the clocks of the replicas with the primary's: replicas get
// expiries as points in time.
func (s *Store) examineClocks(ctx context.Context, replicas []string, margin time.Duration) lease.Finding {
	const subject = "replica clocks"
	primary := s.servers.place(s.leaseKey(probe))
	allowed := margin.Round(time.Millisecond)
	worst := time.Millisecond
	for _, addr := range replicas {
		apart, err := s.clocksApart(ctx, primary, addr)
		if err != nil {
			failure := s.servers.failure(ctx, "status", "redis", addr, err)
			return lease.Warned(subject, "one cannot be read: "+failure.Err.Error(), "let this host and this user reach every replica: one of them may take the primary's place")
		}
		if worst = max(worst, apart); worst > margin {
			return lease.Warned(subject, fmt.Sprintf("that of %s and the primary's are %s apart, and %s is allowed: after a failover leases end early, or late", addr, apart.Round(time.Millisecond), allowed),
				"look after the time of all servers: chrony, or what the virtual machine offers")
		}
	}
	return lease.Passed(subject, fmt.Sprintf("within %s of the primary's; %s is allowed", worst.Round(time.Millisecond), allowed))
}

// clocksApart returns by how much two servers' clocks differ at least. It reads the second
// clock between two readings of the first.
func (s *Store) clocksApart(ctx context.Context, primary, replica string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, guideLimit)
	defer cancel()
	var read [3]time.Time
	for i, addr := range []string{primary, replica, primary} {
		v, err := s.servers.conns.do(ctx, addr, func(c *redis.Client) (any, error) { return c.Time(ctx).Result() })
		if err != nil {
			return 0, err
		}
		read[i] = v.(time.Time)
	}
	return max(0, read[0].Sub(read[1]), read[1].Sub(read[2])), nil
}

// examineEviction looks for a server that may delete leases to save memory.
func examineEviction(info *redis.InfoCmd) lease.Finding {
	limit, policy := info.Item("Memory", "maxmemory"), info.Item("Memory", "maxmemory_policy")
	text := "maxmemory-policy " + policy
	switch {
	case policy == "noeviction":
		return lease.Passed("eviction", text)
	case limit == "0":
		return lease.Passed("eviction", text+", without a limit of memory")
	}
	return lease.Failed("eviction", text+": leases may be evicted", "CONFIG SET maxmemory-policy noeviction, or use a Redis that is no cache")
}

func examinePersistence(info *redis.InfoCmd) lease.Finding {
	item := func(name string) string { return info.Item("Persistence", name) }
	switch {
	case item("rdb_last_bgsave_status") == "err" || item("aof_last_write_status") == "err":
		return lease.Failed("persistence", "it cannot save its data: soon it refuses all writes", "look at its log and its disk")
	case item("aof_enabled") != "1":
		return lease.Warned("persistence", "no append-only file: a crash loses ticks and history; leases are put back by their holders", "CONFIG SET appendonly yes, if jobs use --once-per")
	}
	return lease.Passed("persistence", "append-only file")
}

// failoverTime is how long a failover takes once a server counts as down: the sentinels
// agree, elect one of them and promote a replica. That took about a second on loopback;
// twice that leaves room for a network.
const failoverTime = 2 * time.Second

func (s *Store) examineSentinels(ctx context.Context, outage time.Duration) lease.Finding {
	const subject = "sentinels"
	var err error
	for _, addr := range s.servers.addrs {
		var v any
		v, err = s.servers.guides.do(ctx, addr, func(c *redis.Client) (any, error) {
			settings := redis.NewMapStringStringCmd(ctx, "SENTINEL", "master", s.servers.name)
			return settings, c.Process(ctx, settings)
		})
		s.servers.guides.drop(addr)
		if err == nil {
			return judgeSentinels(v.(*redis.MapStringStringCmd).Val(), s.servers.name, outage)
		}
		err = s.servers.failure(ctx, "status", "sentinel", addr, err)
	}
	return notExamined(subject, err, "grant this user of the sentinels +sentinel|master")
}

func judgeSentinels(settings map[string]string, name string, outage time.Duration) lease.Finding {
	ms, _ := strconv.ParseInt(settings["down-after-milliseconds"], 10, 64)
	others, _ := strconv.Atoi(settings["num-other-sentinels"])
	failover := time.Duration(ms)*time.Millisecond + failoverTime
	text := fmt.Sprintf("%d, quorum %s; a failover takes about %s, and a run outlasts %s",
		others+1, settings["quorum"], failover.Round(time.Second), outage.Round(100*time.Millisecond))
	switch {
	case strings.Contains(settings["flags"], "down"):
		return lease.Failed("sentinels", "they take the server for down", "look at SENTINEL MASTER "+name+" and at their logs")
	case failover > outage:
		return lease.Warned("sentinels", text, fmt.Sprintf("use a longer --ttl, or SENTINEL SET %s down-after-milliseconds %d", name, max(1000, (outage-failoverTime).Milliseconds())))
	case others < 2:
		return lease.Warned("sentinels", text, "run three sentinels on three hosts: fewer cannot agree when one is gone")
	}
	return lease.Passed("sentinels", text)
}
