package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

const (
	boot = "etcd"
	// settle is how long, in ms, a key waits for a holder that may be alive although the
	// store does not know it.
	settle = 300
	// apart is how much, in ms, the Dates of two members may differ: half a minute between
	// their clocks, and one second because Dates have whole seconds.
	apart = 31_000
)

func (s *Store) leases() string            { return s.prefix + "/lease/" }
func (s *Store) leaseOf(key string) string { return s.leases() + key }
func (s *Store) runsOf(key string) string  { return s.prefix + "/runs/" + key }

// reads returns the operations that read a row. The runs have their own key, so that a
// renewal need not write them again.
func (s *Store) reads(key string) []operation {
	return []operation{get(s.leaseOf(key)), get(s.runsOf(key))}
}

// kept is a row as etcd had it when it was read.
type kept struct {
	mod  int64 // the revision that changed it last; 0: it does not exist
	runs []byte
}

// keeper is a [cas.Keeper] that asks one member.
type keeper struct {
	*Store
	host string
}

// Read implements [cas.Keeper].
func (k keeper) Read(ctx context.Context, key string) (cas.Row, error) {
	r, _, err := k.read(ctx, key)
	return r, err
}

// read returns the row of key, and the present revision of etcd.
func (k keeper) read(ctx context.Context, key string) (cas.Row, int64, error) {
	var a txnAnswer
	date, err := k.client.post(ctx, k.host, "/v3/kv/txn", txn{Success: k.reads(key)}, &a)
	if err != nil {
		return cas.Row{}, 0, err
	}
	r, err := k.row(key, a, date)
	return r, int64(a.Header.Revision), err
}

// row reads the answer to reads.
func (s *Store) row(key string, a txnAnswer, date time.Time) (cas.Row, error) {
	r := cas.Row{Value: cas.New(key), Server: a.Header.server(), Date: date}
	if len(a.Responses) != 2 || a.Header.Revision <= 0 {
		return r, errNoAnswer
	}
	var is kept
	var err error
	if found := a.Responses[0].Range.KVs; len(found) == 1 {
		is.mod = int64(found[0].ModRevision)
		if r.Value, err = s.parse(key, found[0].Value); err != nil {
			return r, err
		}
	}
	if found := a.Responses[1].Range.KVs; len(found) == 1 {
		is.runs = found[0].Value
		if json.Unmarshal(is.runs, &r.Runs) != nil {
			return r, untrusted{s.runsOf(key), errors.New("they are damaged")}
		}
	}
	r.Kept = is
	return r, nil
}

func (s *Store) parse(key string, text []byte) (cas.Value, error) {
	v, err := s.Parse(key, text)
	if err == nil && len(v.Runs) > 0 {
		err = errors.New("it has runs, which are kept beside it")
	}
	if err != nil {
		err = untrusted{s.leaseOf(key), err}
	}
	return v, err
}

// Swap implements [cas.Keeper].
func (k keeper) Swap(ctx context.Context, r cas.Row) (now cas.Row, saved bool, err error) {
	was, bare := r.Kept.(kept), r.Value
	bare.Runs = nil
	text, errText := json.Marshal(bare)
	runs, errRuns := json.Marshal(r.Runs)
	if err := errors.Join(errText, errRuns); err != nil {
		return r, false, err
	}
	write := txn{Compare: []compare{unchanged(k.leaseOf(r.Key), was.mod)}, Success: []operation{put(k.leaseOf(r.Key), text)}, Failure: k.reads(r.Key)}
	switch {
	case len(r.Runs) == 0 && len(was.runs) > 0:
		write.Success = append(write.Success, remove(k.runsOf(r.Key)))
	case len(r.Runs) > 0 && !bytes.Equal(runs, was.runs):
		write.Success = append(write.Success, put(k.runsOf(r.Key), runs))
	}
	var a txnAnswer
	date, err := k.client.post(ctx, k.host, "/v3/kv/txn", write, &a)
	if err != nil {
		return r, false, err
	}
	if a.Succeeded {
		if was.mod == 0 {
			k.prune(ctx, k.Instant(r))
		}
		return r, true, nil
	}
	now, err = k.row(r.Key, a, date)
	if err == nil && now.Kept.(kept).mod == was.mod {
		err = fmt.Errorf("%w: it does not take a change of what nobody has changed", errNoAnswer)
	}
	return now, false, err
}

// prune removes keys that have not been used for long; it checks the ten oldest. It is called
// after a key is added, so their number does not grow for ever, and renewals take no longer.
// Errors are ignored: the next call tries again.
func (k keeper) prune(ctx context.Context, now leasestate.Instant) {
	var a rangeAnswer
	q := rangeRequest{Key: []byte(k.leases()), RangeEnd: end(k.leases()), Limit: 10, SortTarget: "MOD", SortOrder: "ASCEND"}
	if _, err := k.client.post(ctx, k.host, "/v3/kv/range", q, &a); err != nil {
		return
	}
	for _, kv := range a.KVs {
		key := strings.TrimPrefix(string(kv.Key), k.leases())
		if v, err := k.parse(key, kv.Value); err == nil && v.Idle(v.Changed, now) {
			drop := txn{Compare: []compare{unchanged(string(kv.Key), int64(kv.ModRevision))}, Success: []operation{remove(string(kv.Key)), remove(k.runsOf(key))}}
			if _, err := k.client.post(ctx, k.host, "/v3/kv/txn", drop, &txnAnswer{}); err != nil {
				return
			}
		}
	}
}
