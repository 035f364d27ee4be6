package etcd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// Inspect implements [lease.Admin].
func (s *Store) Inspect(ctx context.Context, key string) (status lease.Status, err error) {
	err = s.client.do(ctx, "status", func(ctx context.Context, host string) error {
		r, err := s.read(ctx, host, key)
		if err == nil {
			status = r.state.Status(s.instant(r))
		}
		return err
	})
	return status, err
}

// Keys implements [lease.Admin].
func (s *Store) Keys(ctx context.Context) ([]string, error) {
	keys := []string{}
	err := s.client.do(ctx, "list", func(ctx context.Context, host string) error {
		keys = keys[:0]
		const page = 1000
		for from := s.leases(); ; {
			q := rangeRequest{Key: []byte(from), RangeEnd: end(s.leases()), KeysOnly: true, Limit: page}
			var a rangeAnswer
			if _, err := s.client.post(ctx, host, "/v3/kv/range", q, &a); err != nil {
				return err
			}
			for _, kv := range a.KVs {
				from = string(kv.Key) + "\x00"
				if key := strings.TrimPrefix(string(kv.Key), s.leases()); lease.ValidKey(key) {
					keys = append(keys, key)
				}
			}
			if !a.More || len(a.KVs) == 0 {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return keys, nil
}

// end is the first key behind all that begin with a prefix.
func end(prefix string) []byte {
	last := len(prefix) - 1
	return append([]byte(prefix[:last]), prefix[last]+1)
}

// HandOver implements [lease.Admin]. The holder is called.
func (s *Store) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, verb{op: "hand over", key: key, calls: true}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.HandOver(now)
		return st.Status(now)
	})
}

// Revoke implements [lease.Admin]. The holder is called, and those who wait see
// whether the key is free.
func (s *Store) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	return s.operate(ctx, verb{op: "revoke", key: key, calls: true}, func(st *leasestate.State, instant leasestate.Instant) lease.Status {
		before := st.Status(instant)
		st.Revoke(now, instant)
		return before
	})
}

// Pause implements [lease.Admin].
func (s *Store) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return s.operate(ctx, verb{op: "pause", key: key}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.Pause(d, by, reason, now)
		return st.Status(now)
	})
}

// Resume implements [lease.Admin]. Those who wait see that the key is free.
func (s *Store) Resume(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, verb{op: "resume", key: key}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		before := st.Status(now)
		st.Resume()
		return before
	})
}

func (s *Store) operate(ctx context.Context, v verb, do func(*leasestate.State, leasestate.Instant) lease.Status) (status lease.Status, err error) {
	v.change = func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		status = do(st, now)
		return lease.Lease{}, nil
	}
	if _, err := s.update(ctx, v); err != nil {
		return lease.Status{}, err
	}
	return status, nil
}

// prune removes keys that are long out of use, of the ten that were changed longest
// ago. A verb that adds a key does it, so that they do not grow for ever and nobody else
// pays. What fails is left for the next time.
func (s *Store) prune(ctx context.Context, host string, now leasestate.Instant) {
	var a rangeAnswer
	q := rangeRequest{Key: []byte(s.leases()), RangeEnd: end(s.leases()), Limit: 10, SortTarget: "MOD", SortOrder: "ASCEND"}
	if _, err := s.client.post(ctx, host, "/v3/kv/range", q, &a); err != nil {
		return
	}
	for _, kv := range a.KVs {
		key := strings.TrimPrefix(string(kv.Key), s.leases())
		var v value
		if v.parse(key, kv.Value) == nil && v.state.Idle(v.Changed, now) {
			drop := txn{Compare: []compare{unchanged(string(kv.Key), int64(kv.ModRevision))}, Success: []operation{remove(string(kv.Key)), remove(s.runsOf(key))}}
			if _, err := s.client.post(ctx, host, "/v3/kv/txn", drop, &txnAnswer{}); err != nil {
				return
			}
		}
	}
}
