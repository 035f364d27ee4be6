package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// row is what etcd says of a key, and when.
type row struct {
	value
	mod    int64 // the revision that changed it last, 0: there is none
	runs   []byte
	header header
	date   time.Time
}

// value is the state of a key as etcd keeps it, without its runs, which are beside it:
// a renewal need not write them again.
type value struct {
	state leasestate.State
	marks
}

// marks are what a state does not say itself. A revision is that on which a change
// was decided: no two changes of a key have the same.
type marks struct {
	Changed int64 `json:"changed"` // when, ms
	Beat    int64 `json:"beat"`    // the revision of the last grant or renewal
	Call    int64 `json:"call"`    // the revision of the last call to the holder
}

// sight is what this process has seen of a key, by its own clock.
type sight struct {
	grant   identity
	granted time.Duration // since when the grant is as it is
	call    int64
	called  time.Duration // since when that is the last call
	known   int64         // the last call of which the holder knows, if it is this process
}

// identity tells a grant, renewed so often, from every other. Server is there because a
// restored etcd has the same revisions again.
type identity struct {
	token, beat int64
	server      string
}

// Of the clocks only the members' count. They go on over a restart, so there is only
// one boot.
const boot = "etcd"

const (
	// settle is how long, in ms, a key waits for a holder that may be alive without the
	// store knowing.
	settle = 300
	// apart is by how much, in ms, the Dates of two members may differ: their clocks by
	// half a minute, and the second in which each counts.
	apart = 31_000
)

// The names of keys. Neither a prefix nor a key has a character that ends one of them.
func (s *Store) leases() string            { return s.prefix + "/lease/" }
func (s *Store) leaseOf(key string) string { return s.leases() + key }
func (s *Store) runsOf(key string) string  { return s.prefix + "/runs/" + key }

// reads are the operations that find a row.
func (s *Store) reads(key string) []operation {
	return []operation{get(s.leaseOf(key)), get(s.runsOf(key))}
}

// read finds the row of key.
func (s *Store) read(ctx context.Context, host, key string) (row, error) {
	var a txnAnswer
	date, err := s.client.post(ctx, host, "/v3/kv/txn", txn{Success: s.reads(key)}, &a)
	if err != nil {
		return row{}, err
	}
	return s.row(key, a, date)
}

// row reads what came of reads.
func (s *Store) row(key string, a txnAnswer, date time.Time) (row, error) {
	r := row{value: value{state: leasestate.New(key)}, header: a.Header, date: date}
	if len(a.Responses) != 2 || a.Header.Revision <= 0 {
		return r, errNoAnswer
	}
	if found := a.Responses[0].Range.KVs; len(found) == 1 {
		r.mod = int64(found[0].ModRevision)
		if err := r.parse(key, found[0].Value); err != nil {
			return r, s.untrusted(s.leaseOf(key), err)
		}
	}
	if found := a.Responses[1].Range.KVs; len(found) == 1 {
		r.runs = found[0].Value
		if json.Unmarshal(r.runs, &r.state.Runs) != nil {
			return r, s.untrusted(s.runsOf(key), errors.New("they are damaged"))
		}
	}
	return r, nil
}

// parse never guesses: a guess could grant twice.
func (v *value) parse(key string, text []byte) error {
	*v = value{}
	if json.Unmarshal(text, &v.state) != nil || json.Unmarshal(text, &v.marks) != nil {
		return errors.New("it is damaged") // the error itself speaks of Go's types
	}
	if err := v.state.Check(key); err != nil {
		return err
	}
	if g := v.state.Grant; g != nil && g.Boot != boot {
		return errors.New("its grant is not one of this store")
	}
	if len(v.state.Runs) > 0 {
		return errors.New("it has runs, which are kept beside it")
	}
	return nil
}

// text is the value as it is written.
func (v *value) text() ([]byte, error) {
	bare := v.state
	bare.Runs = nil
	return json.Marshal(struct {
		leasestate.State
		marks
	}{bare, v.marks})
}

// instant is the time of what was read, as the member knows it that gave it, and this
// process.
func (s *Store) instant(r row) leasestate.Instant {
	wall := s.wall(r.date)
	now := leasestate.Instant{Boot: boot, Up: wall, Wall: wall, Settle: s.settle, Server: r.header.server(), Apart: s.apart}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.sights[r.state.Key]; ok {
		now.Unrenewed = (s.now() - seen.granted).Milliseconds()
		if r.state.Settling != nil {
			now.Settled = (s.now() - seen.called).Milliseconds()
		}
	}
	return now
}

// see remembers what a row shows for the first time. Answered says that the holder has
// just been granted the lease, or renewed it.
func (s *Store) see(r row, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.sights[r.state.Key]
	if g := (identity{r.state.Token, r.Beat, r.state.Server}); !ok || seen.grant != g {
		seen.grant, seen.granted = g, s.now()
	}
	if !ok || seen.call != r.Call {
		seen.call, seen.called = r.Call, s.now()
	}
	if answered {
		seen.known = r.Call
	}
	s.sights[r.state.Key] = seen
}

// calls reports whether the holder has been called since it heard of the store.
func (s *Store) calls(key string, r row) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Call != s.sights[key].known
}

// verb is what is done to a key.
type verb struct {
	op, key string
	change  func(*leasestate.State, leasestate.Instant) (lease.Lease, error)
	// beats says that a positive answer is a grant or a renewal, calls that the holder
	// is called.
	beats, calls bool
}

// update applies a verb to the key's row, again and again while others change the row
// in between: each time that is somebody's success.
func (s *Store) update(ctx context.Context, v verb) (l lease.Lease, answer error) {
	err := s.client.do(ctx, v.op, func(ctx context.Context, host string) error {
		r, err := s.read(ctx, host, v.key)
		for saved := false; err == nil && !saved; {
			s.see(r, false)
			now, settling := s.instant(r), r.state.Settling
			was, errWas := r.text()
			l, answer = v.change(&r.state, now)
			beat := v.beats && answer == nil
			is, errIs := r.text()
			runs, errRuns := json.Marshal(r.state.Runs)
			if err := errors.Join(errWas, errIs, errRuns); err != nil {
				return err
			}
			if len(r.state.Runs) == 0 || bytes.Equal(runs, r.runs) {
				runs = nil
			}
			if bytes.Equal(was, is) && runs == nil && !beat {
				return nil
			}
			r.Changed = now.Wall
			if beat {
				r.Beat = int64(r.header.Revision)
			}
			if v.calls || r.state.Settling != nil && r.state.Settling != settling {
				r.Call = int64(r.header.Revision)
			}
			added := r.mod == 0
			if saved, err = s.save(ctx, host, v.key, &r, runs); saved {
				s.see(r, beat)
				if added {
					s.prune(ctx, host, now)
				}
			}
		}
		return err
	})
	if err != nil {
		return lease.Lease{}, err
	}
	return l, answer
}

// save replaces the row that was read, unless somebody has changed it since: then r is
// what is there now.
func (s *Store) save(ctx context.Context, host, key string, r *row, runs []byte) (saved bool, err error) {
	text, err := r.text()
	if err != nil {
		return false, err
	}
	write := txn{Compare: []compare{unchanged(s.leaseOf(key), r.mod)}, Success: []operation{put(s.leaseOf(key), text)}, Failure: s.reads(key)}
	if runs != nil {
		write.Success = append(write.Success, put(s.runsOf(key), runs))
	}
	var a txnAnswer
	date, err := s.client.post(ctx, host, "/v3/kv/txn", write, &a)
	if err != nil {
		return false, err
	}
	if a.Succeeded {
		return true, nil
	}
	now, err := s.row(key, a, date)
	if err == nil && now.mod == r.mod {
		err = fmt.Errorf("%w: it does not take a change of what nobody has changed", errNoAnswer)
	}
	*r = now
	return false, err
}
