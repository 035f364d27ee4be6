package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

func (s *Store) leases() string            { return s.prefix + "/lease/" }
func (s *Store) leaseOf(key string) string { return s.leases() + key }
func (s *Store) runsOf(key string) string  { return s.prefix + "/runs/" + key }

// reads returns the operations that read a row. The runs have their own key, so that a
// renewal need not write them again.
func (s *Store) reads(key string) []operation {
	return []operation{get(s.leaseOf(key)), get(s.runsOf(key))}
}

// mod returns the revision that changed a row last, 0 if there is none. A row keeps its runs as
// etcd had them.
func mod(r keep.Row) int64 { n, _ := r.Version.(int64); return n }

// keeper is a [keep.Keeper] that asks one member.
type keeper struct {
	*Store
	host string
}

var _ keep.Pruner = keeper{}

// Read implements [keep.Keeper].
func (k keeper) Read(ctx context.Context, key string) (keep.Row, error) {
	r, _, err := k.read(ctx, key)
	return r, err
}

// read returns the row of key, and the present revision of etcd.
func (k keeper) read(ctx context.Context, key string) (keep.Row, int64, error) {
	var a txnAnswer
	date, err := k.client.post(ctx, k.host, "/v3/kv/txn", txn{Success: k.reads(key)}, &a)
	if err != nil {
		return keep.Row{}, 0, err
	}
	r, err := k.row(key, a, date)
	return r, int64(a.Header.Revision), err
}

// row reads the answer to reads.
func (s *Store) row(key string, a txnAnswer, date time.Time) (keep.Row, error) {
	r := keep.Row{State: rules.New(key), Now: s.At(date.UnixMilli(), a.Header.server())}
	if len(a.Responses) != 2 || a.Header.Revision <= 0 {
		return r, errNoAnswer
	}
	var runs []byte
	var err error
	if found := a.Responses[0].Range.KVs; len(found) == 1 {
		r.Version = int64(found[0].ModRevision)
		if r.State, err = s.parse(key, found[0].Value); err != nil {
			return r, err
		}
	}
	if found := a.Responses[1].Range.KVs; len(found) == 1 {
		runs = found[0].Value
		if json.Unmarshal(runs, &r.Runs) != nil {
			return r, untrusted(s.runsOf(key), errors.New("they are damaged"))
		}
	}
	r.Kept = runs
	return r, nil
}

func (s *Store) parse(key string, text []byte) (rules.State, error) {
	v, err := s.Parse(key, text)
	if err == nil && len(v.Runs) > 0 {
		err = errors.New("it has runs, which are kept beside it")
	}
	if err != nil {
		err = untrusted(s.leaseOf(key), err)
	}
	return v, err
}

// Swap implements [keep.Keeper].
func (k keeper) Swap(ctx context.Context, r keep.Row, _ keep.Effect) (now keep.Row, saved bool, err error) {
	were, bare := r.Kept.([]byte), r.State
	bare.Runs = nil
	text, errText := json.Marshal(bare)
	runs, errRuns := json.Marshal(r.Runs)
	if err := errors.Join(errText, errRuns); err != nil {
		return r, false, err
	}
	write := txn{Compare: []compare{unchanged(k.leaseOf(r.Key), mod(r))}, Success: []operation{put(k.leaseOf(r.Key), text)}, Failure: k.reads(r.Key)}
	switch {
	case len(r.Runs) == 0 && len(were) > 0:
		write.Success = append(write.Success, remove(k.runsOf(r.Key)))
	case len(r.Runs) > 0 && !bytes.Equal(runs, were):
		write.Success = append(write.Success, put(k.runsOf(r.Key), runs))
	}
	var a txnAnswer
	date, err := k.client.post(ctx, k.host, "/v3/kv/txn", write, &a)
	if err != nil || a.Succeeded {
		return r, err == nil, err
	}
	now, err = k.row(r.Key, a, date)
	return now, false, err
}

// Oldest implements [keep.Pruner].
func (k keeper) Oldest(ctx context.Context, _ rules.Instant) (rows []keep.Row, err error) {
	const some = 10
	var a rangeAnswer
	q := rangeRequest{Key: []byte(k.leases()), RangeEnd: end(k.leases()), Limit: some, SortTarget: "MOD", SortOrder: "ASCEND"}
	if _, err := k.client.post(ctx, k.host, "/v3/kv/range", q, &a); err != nil {
		return nil, err
	}
	for _, kv := range a.KVs {
		if st, err := k.parse(strings.TrimPrefix(string(kv.Key), k.leases()), kv.Value); err == nil {
			rows = append(rows, keep.Row{State: st, Version: int64(kv.ModRevision)})
		}
	}
	return rows, nil
}

// Remove implements [keep.Pruner].
func (k keeper) Remove(ctx context.Context, r keep.Row) error {
	name := k.leaseOf(r.Key)
	drop := txn{Compare: []compare{unchanged(name, mod(r))}, Success: []operation{remove(name), remove(k.runsOf(r.Key))}}
	_, err := k.client.post(ctx, k.host, "/v3/kv/txn", drop, &txnAnswer{})
	return err
}
