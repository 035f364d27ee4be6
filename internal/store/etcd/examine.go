package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// member is what a member of etcd says about itself.
type member struct {
	host   string
	status statusAnswer
	err    *lease.StoreError
	// Its clock is ahead of this process's by at least least, and at most most.
	least, most time.Duration
}

// Examine implements [lease.Examiner].
func (s *Store) Examine(ctx context.Context, _, _ time.Duration) []lease.Finding {
	var members []member
	answered := 0
	for i, host := range s.client.hosts {
		m := s.examine(ctx, host, len(s.client.hosts)-i)
		members = append(members, m)
		if m.err == nil {
			answered++
		}
	}
	var all []lease.Finding
	for _, m := range members {
		f := lease.Passed("server", fmt.Sprintf("etcd %s at %s, %d KiB", lease.Readable(m.status.Version), m.host, m.status.Size>>10))
		switch {
		case m.err != nil && answered > 0: // runs use the other members
			f = lease.Warned("server", m.host+": "+m.err.Error(), m.err.Hint)
		case m.err != nil:
			f = lease.Failed("server", m.host+": "+m.err.Error(), m.err.Hint)
		}
		all = append(all, f)
	}
	if answered > 0 {
		all = append(all, durability(members), quorum(members), alarms(members), clocks(members, network.Apart*time.Millisecond))
	}
	return all
}

func (s *Store) examine(ctx context.Context, host string, left int) member {
	m := member{host: host}
	ctx, cancel := share(ctx, left)
	defer cancel()
	sent := s.Now()
	date, err := s.client.post(ctx, host, "/v3/maintenance/status", struct{}{}, &m.status)
	if err != nil {
		m.err = s.client.storeError(ctx, "status", err)
		return m
	}
	wall := time.Duration(s.At(date.UnixMilli(), "").Wall) * time.Millisecond
	m.least, m.most = wall-s.Now(), wall+time.Second-sent
	return m
}

// durability judges whether the members' versions keep what they acknowledge.
func durability(members []member) lease.Finding {
	for _, m := range members {
		if m.err == nil && forgets(m.status.Version) {
			return lease.Warned("durability", fmt.Sprintf("etcd %s at %s can lose in a crash what it has acknowledged (etcd issues 14370 and 13766)", lease.Readable(m.status.Version), m.host),
				"upgrade it to 3.4.21, 3.5.5 or later")
		}
	}
	return lease.Passed("durability", "what was acknowledged is on the disks of most members")
}

// forgets reports whether a version has the fault of etcd issue 14370, which concerns an etcd of
// one member, or of 13766, which concerns several members and only 3.5.0 to 3.5.2.
func forgets(version string) bool {
	var minor, patch int
	if _, err := fmt.Sscanf(version, "3.%d.%d", &minor, &patch); err != nil {
		return false
	}
	return minor < 4 || minor == 4 && patch < 21 || minor == 5 && patch < 5
}

func quorum(members []member) lease.Finding {
	for _, m := range members {
		if m.err == nil && (m.status.Leader == "" || m.status.Leader == "0") {
			return lease.Failed("quorum", m.host+" knows no leader: it grants nothing", hintQuorum)
		}
	}
	return lease.Passed("quorum", "a leader is known")
}

func alarms(members []member) lease.Finding {
	for _, m := range members {
		if len(m.status.Errors) > 0 {
			return lease.Failed("alarms", m.host+": "+lease.Readable(strings.Join(m.status.Errors, "; ")), "etcdctl alarm list; its --auto-compaction-retention and etcdctl defrag make room")
		}
	}
	return lease.Passed("alarms", "none")
}

// clocks compares the members' clocks, and reports by how much they certainly differ.
func clocks(members []member, allowed time.Duration) lease.Finding {
	ahead := time.Duration(0)
	for _, m := range members {
		for _, other := range members {
			if m.err == nil && other.err == nil {
				ahead = max(ahead, m.least-other.most)
			}
		}
	}
	if ahead > 0 {
		return lease.Warned("clocks", fmt.Sprintf("the members' clocks differ by %s at least, and by %s at most they must", ahead.Round(100*time.Millisecond), allowed),
			"look after the time of all members: chrony, or what the virtual machine offers")
	}
	return lease.Passed("clocks", fmt.Sprintf("no difference is seen between the members; %s is allowed", allowed))
}
