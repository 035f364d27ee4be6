package etcd

import (
	"context"
	"strings"
)

// Names implements [keep.Keeper].
func (k keeper) Names(ctx context.Context) (names []string, err error) {
	const page = 1000
	for from := k.leases(); ; {
		q := rangeRequest{Key: []byte(from), RangeEnd: end(k.leases()), KeysOnly: true, Limit: page}
		var a rangeAnswer
		if _, err := k.client.post(ctx, k.host, "/v3/kv/range", q, &a); err != nil {
			return nil, err
		}
		for _, kv := range a.KVs {
			from = string(kv.Key) + "\x00"
			names = append(names, strings.TrimPrefix(string(kv.Key), k.leases()))
		}
		if !a.More || len(a.KVs) == 0 {
			return names, nil
		}
	}
}

// end returns the first key after all keys that begin with a prefix.
func end(prefix string) []byte {
	last := len(prefix) - 1
	return append([]byte(prefix[:last]), prefix[last]+1)
}
