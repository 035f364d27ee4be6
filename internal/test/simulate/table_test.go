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
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// table is a server that keeps one row. A write only succeeds if the row has not changed since it
// was read.
type table struct {
	w *world
	// apart is how much, in ms, its members' clocks differ, which it uses by turns: 0 if it
	// has one clock.
	apart int64
	// silent: it calls and wakes nobody, and does not say which server answers.
	silent bool

	mu         sync.Mutex
	row, saved row
	answers    int64
	waiting    []*waiter
	conns      []net.Conn
}

const second = 1000 // ms: Dates have whole seconds

type row struct {
	Version   int64 // 0: there is no row
	State     rules.State
	RenewedAt time.Duration // when the last renewal was written
}

// waiter is a connection that waits for a kind of change.
type waiter struct {
	kind   string
	called chan struct{}
}

// inquiry and reply are requests and answers, each a line of JSON.
type inquiry struct {
	Op     string // read, write, hear
	Holder string // who asks
	Row    row    // to write
	Before int64  // the version that was read
	// Kind has the kinds of this change, or those to wait for: words of "call wake any".
	Kind string
}

type reply struct {
	Row   row
	Now   rules.Instant
	Saved bool
	heard bool // Row is after a change
}

func noRow() row { return row{State: rules.New(key)} }

func newTable(w *world) backend { return &table{w: w, row: noRow()} }

// newMembers returns a table like that of etcd's members, whose clocks differ.
func newMembers(w *world) backend {
	const apart = 20_000
	w.unwatched = apart * time.Millisecond
	return &table{w: w, apart: apart, row: noRow()}
}

// newBucket returns a table like that of object storage. It keeps what it has acknowledged.
func newBucket(w *world) backend {
	t := newMembers(w).(*table)
	t.silent, w.forgetful, w.silent = true, false, true
	return t
}

func (t *table) now() rules.Instant {
	ms := t.w.stored(t.w.at())
	now := rules.Instant{Boot: "table", Up: ms, Wall: ms, Settle: 300, Server: fmt.Sprint(t.w.server.Load()), Apart: t.apart}
	if t.silent {
		now.Server, now.Uncalled = "", true
	}
	if t.w.server.Load() == 1 { // a server that was killed does not say how long it has lost nothing
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
			if !ok || server != t.w.server.Load() { // the server has died meanwhile
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
	switch {
	case q.Op == "hear" && t.row.Version == q.Before: // there was no change before it listened
		w := &waiter{kind: q.Kind, called: make(chan struct{})}
		t.waiting = append(t.waiting, w)
		t.mu.Unlock()
		select {
		case <-w.called:
			ok = true
		case <-inquiries:
		}
		t.mu.Lock()
		if !ok {
			return reply{}, false
		}
	case q.Op == "write" && t.row.Version == q.Before:
		if q.Row.RenewedAt = t.row.RenewedAt; q.Row.State.Renewed != t.row.State.Renewed {
			q.Row.RenewedAt = t.w.at()
		}
		t.row, r.Saved = q.Row, true
		t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool {
			called := strings.Contains(q.Kind, w.kind)
			if called {
				close(w.called)
			}
			return called
		})
	}
	r.Row, r.Now = t.row, t.now()
	if t.apart > 0 { // one member is ahead and one behind, and all have whole seconds
		const members = 3
		t.answers++
		r.Now.Up += (t.apart - second) / 2 * (t.answers%members - 1)
		r.Now.Up -= r.Now.Up % second
		r.Now.Wall, r.Now.Serving = r.Now.Up, 0
	}
	return r, true
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
	s := seen{token: st.Token, ticks: fmt.Sprint(st.ServedTick, st.SeriesTick, st.Starts), anchor: st.SeriesTick}
	if g := st.Grant; g != nil {
		if left := t.left(g); left > 0 {
			s.left = time.Duration(left) * time.Millisecond
			switch s.value = string(g.Holder); {
			case g.Cooldown:
				s.value = cooling + s.value
			case g.Revoked:
				s.value = takenFrom + s.value
			}
		}
		if !g.Cooldown && !g.Revoked {
			s.id, s.tick, s.acquired = string(g.Holder), g.Tick, g.Acquired
		}
	}
	return s
}

// left returns how long, in ms, g takes the key. If the clocks differ, it ends one TTL after
// its renewal for a candidate that has watched it, whose clock may be one percent too fast.
func (t *table) left(g *rules.Grant) int64 {
	now := t.now().Up
	if t.apart == 0 {
		return g.Expires - now
	}
	watched := g.TTL*99/100 - (t.w.at() - t.row.RenewedAt).Milliseconds()
	return max(min(g.MinHoldUntil-now, g.MinHoldUntil-g.Acquired)-t.apart, min(watched, g.Expires+(t.apart+second)/2-now))
}

func (t *table) save()    { t.mu.Lock(); defer t.mu.Unlock(); t.saved = t.row.clone() }
func (t *table) restore() { t.mu.Lock(); defer t.mu.Unlock(); t.row = t.saved.clone() }
func (t *table) clear()   { t.mu.Lock(); defer t.mu.Unlock(); t.row = noRow() }

// evict deletes the row. A server that has lost nothing for long then takes the key for a new
// one, so the lease is gone.
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

// client returns a store.
func (t *table) client(p *process) (client, error) {
	c := &conns{p: p, dial: network.Dialer(p.dial)}
	return &rowStore{keep.New(keep.Config{
		Do: func(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
			return c.ask(ctx, op, func(s say) error { return call(ctx, s) })
		},
		Hear: func(ctx context.Context, bell keep.Bell, _ string, until func(keep.Row) bool) error {
			if t.silent {
				return lease.ErrNoWakeups
			}
			kind := string(bell)
			if t.apart > 0 { // a watch of the key
				kind = "any"
			}
			return c.follow(ctx, bell.Op(), kind, func(r reply) bool { return t.apart == 0 && r.heard || until(r.value()) })
		},
		Now:  func() time.Duration { return p.host.w.at() + p.offset },
		Here: p.host.shows,
	}), c}, nil
}

type rowStore struct {
	*keep.Store
	*conns
}

// say sends a request on a connection.
type say func(inquiry) (reply, error)

func (r reply) value() keep.Row {
	row := keep.Row{State: r.Row.State, Now: r.Now}
	if r.Row.Version > 0 {
		row.Version = r.Row.Version
	}
	return row
}

// Read, Swap and Names are those of a [keep.Keeper].
func (s say) Read(context.Context, string) (keep.Row, error) {
	r, err := s(inquiry{Op: "read"})
	return r.value(), err
}

func (s say) Swap(_ context.Context, r keep.Row, e keep.Effect) (now keep.Row, saved bool, err error) {
	before, _ := r.Version.(int64)
	q := inquiry{Op: "write", Before: before, Row: row{Version: max(before+1, r.Now.Wall), State: r.State}, Kind: "any"}
	if e.Calls {
		q.Kind += " " + string(keep.Call)
	}
	if e.Wakes {
		q.Kind += " " + string(keep.Wake)
	}
	answer, err := s(q)
	return answer.value(), answer.Saved, err
}

func (s say) Names(context.Context) ([]string, error) { return []string{key}, nil }

// conns keeps one connection for requests. Each wait has its own.
type conns struct {
	p    *process
	dial network.Dial

	mu     sync.Mutex
	idle   net.Conn
	closed bool
}

// holderOf is the context's key for the holder.
type holderOf struct{}

// ask sends one request after the other on a connection, which is kept if all were answered.
func (c *conns) ask(ctx context.Context, op string, talk func(say) error) error {
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
	holder, _ := ctx.Value(holderOf{}).(lease.Holder)
	uncut := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := talk(func(q inquiry) (r reply, err error) {
		q.Holder = string(holder)
		if err = json.NewEncoder(conn).Encode(q); err != nil {
			return r, err
		}
		in := json.NewDecoder(io.LimitReader(conn, 1<<20))
		in.DisallowUnknownFields()
		if err = in.Decode(&r); err == nil && r.Now.Boot == "" {
			err = errors.New("that is no answer")
		}
		c.p.now() // the process may be stopped here
		return r, err
	})
	c.mu.Lock()
	kept := uncut() && err == nil && c.idle == nil && !c.closed
	if kept {
		c.idle = conn
	}
	c.mu.Unlock()
	if !kept {
		_ = conn.Close()
	}
	if err != nil {
		return &lease.StoreError{Op: op, Err: err}
	}
	return nil
}

// follow calls enough with the present row, and again after each change of a kind, until it
// returns true.
func (c *conns) follow(ctx context.Context, op, kind string, enough func(reply) bool) error {
	own := &conns{p: c.p, dial: c.dial, closed: true}
	return own.ask(ctx, op, func(s say) error {
		r, err := s(inquiry{Op: "read"})
		for date := r.Now; err == nil && !enough(r); r.Now, r.heard = date, true {
			r, err = s(inquiry{Op: "hear", Kind: kind, Before: r.Row.Version})
		}
		return err
	})
}

func (c *conns) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.idle != nil {
		_ = c.idle.Close()
	}
	return nil
}
