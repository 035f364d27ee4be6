package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// table keeps one row as Postgres does: a writer has read it before, with the
// clock, and its change counts if no other came in between. What becomes
// of the row is up to package leasestate.
type table struct {
	w *world
	// apart is by how much, in ms, the clocks differ that its members have, by which it
	// answers in turn: 0 if there is one.
	apart int64

	mu                sync.Mutex
	row               row
	answers, revision int64
	saved             row
	waiting           []*waiter
	conns             []net.Conn
}

const second = 1000 // in which Date counts

type row struct {
	Version int64 // 0: there is none
	State   leasestate.State
	// Beat and Call are the revisions on which the last renewal was decided, and the
	// last call, where the clocks are apart.
	Beat, Call int64
	Beaten     time.Duration // when Beat was written
}

// waiter is a connection that listens to the calls of the holder, or of those who
// stand by.
type waiter struct {
	calls  bool
	called chan struct{}
}

// inquiry and reply are what goes over the network, as a line of JSON each.
type inquiry struct {
	Op     string // read, write, hear
	Holder lease.Holder
	Row    row // to write in place of the version before
	Before int64
	Calls  bool // the holder is called, or listened for
	Wakes  bool // the others are woken
	Limit  time.Duration
}

type reply struct {
	Row      row
	Revision int64 // how many changes there have been
	Now      leasestate.Instant
	Saved    bool
}

func newTable(w *world) backend { return &table{w: w, row: row{State: leasestate.New(key)}} }

// newMembers is a table as etcd's members keep it: with clocks that are apart.
func newMembers(w *world) backend {
	const apart = 20_000
	w.unwatched = apart * time.Millisecond
	return &table{w: w, apart: apart, row: row{State: leasestate.New(key)}}
}

func (t *table) now() leasestate.Instant {
	ms := t.w.stored(t.w.at())
	now := leasestate.Instant{Boot: "table", Up: ms, Wall: ms, Settle: 300, Server: fmt.Sprint(t.w.server.Load()), Apart: t.apart}
	if t.w.server.Load() == 1 { // a server that was killed does not say what it has kept
		now.Serving = t.w.at().Milliseconds()
	}
	return now
}

func (t *table) dial() (net.Conn, error) {
	near, far := net.Pipe()
	t.mu.Lock()
	t.conns = append(t.conns, far)
	t.mu.Unlock()
	inquiries := make(chan inquiry)
	go func() {
		defer close(inquiries)
		for in := json.NewDecoder(far); ; {
			var q inquiry
			if in.Decode(&q) != nil {
				return
			}
			inquiries <- q
		}
	}()
	server := t.w.server.Load()
	go func() {
		for q := range inquiries {
			r, ok := t.answer(q, inquiries)
			if !ok || server != t.w.server.Load() { // it has died meanwhile
				break
			}
			_ = json.NewEncoder(far).Encode(r)
		}
		_ = far.Close()
		for range inquiries { // until the reader sees the end
		}
	}()
	return near, nil
}

// answer returns false if the connection ended before there was an answer.
func (t *table) answer(q inquiry, inquiries <-chan inquiry) (r reply, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch q.Op {
	case "read":
		now := t.now()
		if t.apart > 0 { // one member is ahead, one behind, all count seconds
			const members = 3
			t.answers++
			now.Up += (t.apart - second) / 2 * (t.answers%members - 1)
			now.Up -= now.Up % second
			now.Wall, now.Serving = now.Up, 0
		}
		return reply{Row: t.row, Revision: t.revision, Now: now}, true
	case "write":
		if t.row.Version != q.Before {
			return reply{}, true
		}
		if t.row.Beat != q.Row.Beat {
			q.Row.Beaten = t.w.at()
		}
		t.revision++
		t.row = q.Row
		t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool {
			if called := w.calls && q.Calls || !w.calls && q.Wakes; called {
				close(w.called)
				return true
			}
			return false
		})
		return reply{Saved: true}, true
	}
	// What happened before it listens is in the row.
	if q.Calls && t.row.State.Settling != nil || !q.Calls && t.row.State.Free(t.now()) {
		return reply{}, true
	}
	w := &waiter{calls: q.Calls, called: make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	defer t.mu.Lock()
	limit := time.NewTimer(q.Limit)
	defer limit.Stop()
	select {
	case <-w.called:
	case <-limit.C:
	case <-inquiries:
		return reply{}, false
	}
	return reply{}, true
}

func (t *table) waits(request []byte) bool  { return bytes.Contains(request, []byte(`"Op":"hear"`)) }
func (t *table) writes(request []byte) bool { return bytes.Contains(request, []byte(`"Op":"write"`)) }

// names: a row has others' names, too.
func (t *table) names(request []byte, holder string) bool {
	return bytes.Contains(request, []byte(`"Holder":"`+holder+`","Row"`))
}

func (t *table) showTime(time.Time)    {}
func (t *table) stepped(time.Duration) {}

func (t *table) look() seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := &t.row.State
	s := seen{token: st.Token, ticks: fmt.Sprint(st.Served, st.Anchor, st.Starts), anchor: st.Anchor}
	if g := st.Grant; g != nil {
		if left := t.left(g); left > 0 {
			s.left = time.Duration(left) * time.Millisecond
			if s.value = string(g.Holder); g.Cooldown {
				s.value = "cooldown:" + s.value
			}
		}
		if !g.Cooldown {
			s.id, s.tick, s.acquired = string(g.Holder), g.Tick, g.Acquired
		}
	}
	return s
}

// left is for how long, in ms, g takes the key. Where the clocks are apart it is over a
// TTL after its renewal for who has watched it, by a clock that may be a percent fast.
func (t *table) left(g *leasestate.Grant) int64 {
	now := t.now().Up
	if t.apart == 0 {
		return g.Expires - now
	}
	watched := g.TTL*99/100 - (t.w.at() - t.row.Beaten).Milliseconds()
	return max(min(g.MinHold-now, g.MinHold-g.Acquired)-t.apart, min(watched, g.Expires+(t.apart+second)/2-now))
}

func (t *table) save()    { t.mu.Lock(); defer t.mu.Unlock(); t.saved = t.row.clone() }
func (t *table) restore() { t.mu.Lock(); defer t.mu.Unlock(); t.row = t.saved.clone() }
func (t *table) clear()   { t.mu.Lock(); defer t.mu.Unlock(); t.row = row{State: leasestate.New(key)} }

// evict deletes the row. A server that has served for long then knows that nobody has
// asked for the key: the lease has been taken out.
func (t *table) evict(int, time.Duration) string {
	t.clear()
	if t.now().Serving > 90_000 {
		t.w.takenOut()
	}
	return "the row is deleted"
}

func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conns {
		_ = c.Close()
	}
}

// clone shares nothing with r.
func (r row) clone() (c row) {
	text, _ := json.Marshal(r) // of a row it never fails
	_ = json.Unmarshal(text, &c)
	return c
}

func (t *table) client(p *process) (client, error) {
	return &tableClient{dial: network.Dialer(p.dial), clock: p.now}, nil
}

// tableClient is one process's store. It keeps one connection for requests; each
// wait has its own.
type tableClient struct {
	dial  network.Dial
	clock func() time.Duration

	mu     sync.Mutex
	idle   net.Conn
	closed bool
	sight  sight
}

// sight is what store/etcd remembers of a key.
type sight struct {
	server            string
	token, beat, call int64
	seen              bool
	granted, called   time.Duration
}

// see returns the time of a row with what this client has watched by its own clock.
func (c *tableClient) see(r row, now leasestate.Instant) leasestate.Instant {
	at := c.clock() // which a stopped process waits for
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.sight
	if !s.seen || s.token != r.State.Token || s.beat != r.Beat || s.server != r.State.Server {
		s.granted = at
	}
	if !s.seen || s.call != r.Call {
		s.called = at
	}
	s.seen, s.token, s.beat, s.server, s.call = true, r.State.Token, r.Beat, r.State.Server, r.Call
	now.Unrenewed = (at - s.granted).Milliseconds()
	if r.State.Settling != nil {
		now.Settled = (at - s.called).Milliseconds()
	}
	return now
}

// ask makes one request after the other on a connection that is kept if all were
// answered.
func (c *tableClient) ask(ctx context.Context, op string, talk func(say func(inquiry) (reply, error)) error) error {
	c.mu.Lock()
	conn := c.idle
	c.idle = nil
	c.mu.Unlock()
	if conn == nil {
		var err error
		if conn, err = c.dial(ctx, "tcp", "table"); err != nil {
			return &lease.StoreError{Op: op, Err: err, Refused: errors.As(err, new(*net.OpError))}
		}
	}
	uncut := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := talk(func(q inquiry) (r reply, err error) {
		if err = json.NewEncoder(conn).Encode(q); err != nil {
			return r, err
		}
		in := json.NewDecoder(io.LimitReader(conn, 1<<20))
		in.DisallowUnknownFields()
		return r, in.Decode(&r)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if uncut() && err == nil && c.idle == nil && !c.closed {
		c.idle = conn
		return nil
	}
	_ = conn.Close()
	if err != nil {
		return &lease.StoreError{Op: op, Err: err}
	}
	return nil
}

// update is what store/postgres does with a row.
func (c *tableClient) update(ctx context.Context, op string, holder lease.Holder, wakes bool, change func(*leasestate.State, leasestate.Instant) (lease.Lease, error)) (l lease.Lease, answer error) {
	err := c.ask(ctx, op, func(say func(inquiry) (reply, error)) error {
		for {
			r, err := say(inquiry{Op: "read"})
			if err != nil {
				return err
			}
			if r.Now.Boot == "" {
				return errors.New("that is no answer")
			}
			before, after := r.Row, r.Row.clone()
			if r.Now.Apart > 0 {
				r.Now = c.see(before, r.Now)
			}
			settling := after.State.Settling
			l, answer = change(&after.State, r.Now)
			was, _ := json.Marshal(before.State)
			is, _ := json.Marshal(after.State)
			if bytes.Equal(was, is) && (r.Now.Apart == 0 || op == "release" || answer != nil) {
				return nil
			}
			after.Version = max(before.Version+1, r.Now.Wall)
			s := after.State.Settling
			calls := s != nil && s.Since == r.Now.Up
			if r.Now.Apart > 0 {
				calls = s != nil && s != settling
				if answer == nil && op != "release" {
					after.Beat = r.Revision
				}
				if calls {
					after.Call = r.Revision
				}
			}
			w, err := say(inquiry{Op: "write", Holder: holder, Row: after, Before: before.Version, Wakes: wakes, Calls: calls})
			if err == nil && w.Saved && r.Now.Apart > 0 {
				c.see(after, r.Now)
			}
			if err != nil || w.Saved {
				return err
			}
		}
	})
	if err != nil {
		return lease.Lease{}, err
	}
	return l, answer
}

func (c *tableClient) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	return c.update(ctx, "acquire", r.Holder, false, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) { return st.Acquire(r, now) })
}

func (c *tableClient) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return c.update(network.Holder(ctx), "renew", l.Holder, false, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) { return st.Renew(l, now) })
}

func (c *tableClient) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	_, err := c.update(network.Holder(ctx), "release", l.Holder, true, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return lease.Lease{}, st.Release(l, r, now)
	})
	return err
}

func (c *tableClient) Wait(ctx context.Context, _ string, atMost time.Duration) error {
	return c.hear(ctx, "wait", inquiry{Op: "hear", Limit: atMost})
}

func (c *tableClient) Listen(ctx context.Context, _ string) error {
	return c.hear(network.Holder(ctx), "listen", inquiry{Op: "hear", Calls: true, Limit: 1000 * time.Hour})
}

func (c *tableClient) hear(ctx context.Context, op string, q inquiry) error {
	own := &tableClient{dial: c.dial, closed: true}
	return own.ask(ctx, op, func(say func(inquiry) (reply, error)) error {
		_, err := say(q)
		return err
	})
}

func (c *tableClient) Pass(context.Context, string) error { return nil }

func (c *tableClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.idle != nil {
		_ = c.idle.Close()
	}
	return nil
}
