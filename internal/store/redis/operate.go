package redis

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Inspect implements [lease.Admin].
func (s *Store) Inspect(ctx context.Context, key string) (lease.Status, error) {
	return s.status(ctx, "status", statusLua+"return status()", key)
}

// HandOver implements [lease.Admin]. It calls the holder, which so learns of it at once.
func (s *Store) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return s.status(ctx, "hand over", statusLua+handOverLua, key)
}

// Revoke implements [lease.Admin]. It calls the holder, which so learns of it at once. If the key
// becomes free it wakes a standby.
func (s *Store) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	const usualTTL = 30 * time.Second
	return s.status(ctx, "revoke", statusLua+revokeLua, key, bit(now), minKeep.Milliseconds(), usualTTL.Milliseconds())
}

// Pause implements [lease.Admin].
func (s *Store) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return s.status(ctx, "pause", statusLua+pauseLua, key, min(d, lease.MaxPause).Milliseconds(),
		lease.Readable(lease.Cut(by, lease.MaxMeta)), lease.Readable(lease.Cut(reason, lease.MaxMeta)), minKeep.Milliseconds())
}

// Resume implements [lease.Admin]. It wakes one standby; the others are woken when that one
// releases, or ask again after a TTL at most.
func (s *Store) Resume(ctx context.Context, key string) (lease.Status, error) {
	return s.status(ctx, "resume", statusLua+resumeLua, key)
}

// Forget implements [lease.Admin].
func (s *Store) Forget(ctx context.Context, key string, token bool) (lease.Status, error) {
	return s.status(ctx, "forget", statusLua+forgetLua, key, bit(token), minKeep.Milliseconds())
}

// status runs a script that answers as status.lua does.
func (s *Store) status(ctx context.Context, op, script, key string, args ...any) (lease.Status, error) {
	a, err := s.eval(ctx, op, script, key, args...)
	if err != nil {
		return lease.Status{}, err
	}
	status := lease.Status{
		Key: key, Now: a.int(1), Value: lease.Cut(a.str(3), lease.MaxValue), Remaining: a.duration(4), Holder: lease.Holder(a.str(5)),
		Token: a.int(6), TTL: a.duration(7), Since: a.int(8), MinHoldUntil: a.int(9), Tick: a.int(10), ServedTick: a.int(11),
		Starts: int(a.int(12)), HandOver: a.int(13) == 1, Meta: lease.Cut(a.str(14), lease.MaxMeta), Runs: runs(a.list(15)),
		Pause: a.pause(16), Period: a.duration(20),
		Candidates: candidates(a.str(21)), Tries: int(a.int(22)),
	}
	if a.str(2) != "" {
		status.Why = a.heldReason(2)
	}
	if a.bad || a.int(0) != 1 || status.Holder != "" && !status.Holder.Valid() {
		return lease.Status{}, s.noAnswer(op, key)
	}
	return status, nil
}

// runs returns the entries of the list that can be read.
func runs(entries []string) []lease.Run {
	var all []lease.Run
	for _, entry := range entries {
		var r lease.Run
		if json.Unmarshal([]byte(entry), &r) == nil {
			all = append(all, r)
		}
	}
	return lease.ValidRuns(all)
}

// candidates returns the entries of head.lua's field candidates that can be read.
func candidates(text string) []lease.Candidate {
	var all []lease.Candidate
	for words := range slices.Chunk(strings.Fields(text), 3) {
		if len(words) < 3 {
			break
		}
		first, _ := strconv.ParseInt(words[1], 10, 64) // a bad number becomes 0, which is not valid
		last, _ := strconv.ParseInt(words[2], 10, 64)
		all = append(all, lease.Candidate{Host: words[0], First: first, Last: last})
	}
	return lease.ValidCandidates(all)
}

// Keys implements [lease.Admin]. It scans all names of the server, or of all primaries of a
// cluster, in pages, so that no other request has to wait long.
func (s *Store) Keys(ctx context.Context) ([]string, error) {
	const op = "list"
	known := map[string]bool{}
	scan := func(c *redis.Client) (any, error) { return nil, s.scan(ctx, c, known) }
	var err error
	if s.servers.kind == cluster {
		err = s.servers.eachPrimary(ctx, op, s.leaseKey(""), scan)
	} else {
		_, err = s.servers.do(ctx, op, s.leaseKey(""), scan)
	}
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(known))
	for key := range known {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys, nil
}

// scan adds the keys of one server, which it finds by their leases and their states.
func (s *Store) scan(ctx context.Context, c *redis.Client, known map[string]bool) error {
	const atATime = 1000
	for cursor := uint64(0); ; {
		names, next, err := c.Scan(ctx, cursor, escapeGlob(s.prefix)+":*", atATime).Result()
		if err != nil {
			return err
		}
		for _, name := range names {
			if key := s.keyOf(name); lease.ValidKey(key) {
				known[key] = true
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// keyOf returns the key whose lease or state has this name, "" for any other name.
func (s *Store) keyOf(name string) string {
	if state, ok := strings.CutPrefix(name, s.prefix+":state:{"); ok {
		if name, ok = strings.CutSuffix(state, "}"); !ok {
			return ""
		}
	}
	key, ok := strings.CutPrefix(name, s.leaseKey(""))
	if !ok {
		return ""
	}
	return key
}

// escapeGlob returns a pattern that matches only this text.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
