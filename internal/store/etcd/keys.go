package etcd

import (
	"context"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
)

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

// end returns the first key after all keys that begin with a prefix.
func end(prefix string) []byte {
	last := len(prefix) - 1
	return append([]byte(prefix[:last]), prefix[last]+1)
}
