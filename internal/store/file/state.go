package file

import (
	"cmp"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// state is all that the store knows about one key. Its methods are the rules of
// the contract; they see no file and no clock.
type state struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Token   int64  `json:"token"` // the largest ever granted
	// Grant is the newest one, from then on until it is released and its
	// minimum hold is over. Whether it still lives is a matter of time.
	Grant *grant `json:"grant,omitempty"`
	// Released holders, newest first, are never granted again: a duplicate of
	// their request may still arrive.
	Released []lease.Holder `json:"released,omitempty"`
	// Served is the tick of the last success, Anchor the first tick of those
	// whose starts are counted together.
	Served int64 `json:"served,omitempty"`
	Anchor int64 `json:"anchor,omitempty"`
	Starts int   `json:"starts,omitempty"`
	// Missed is when a candidate first knew of a larger token than this file.
	Missed *missed `json:"missed,omitempty"`
	Runs   []run   `json:"runs,omitempty"` // by token, newest first
}

type grant struct {
	Holder   lease.Holder `json:"holder"`
	TTL      int64        `json:"ttl_ms"`
	Boot     string       `json:"boot"`
	Acquired int64        `json:"acquired"` // this and the next two: ms of that boot
	MinHold  int64        `json:"min_hold"` // until then
	Expires  int64        `json:"expires"`  // never before MinHold
	Started  int64        `json:"started"`  // wall time, ms
	Tick     int64        `json:"tick"`     // wall time, ms
	Cooldown bool         `json:"cooldown"` // released, only its minimum hold is left
	Meta     string       `json:"meta,omitempty"`
}

type missed struct {
	Boot  string `json:"boot"`
	Since int64  `json:"since"` // ms of that boot
}

// run is one entry of the key's history. Times are wall time in milliseconds.
type run struct {
	Token  int64        `json:"token"`
	Tick   int64        `json:"tick"`
	Start  int64        `json:"start"`
	End    int64        `json:"end,omitempty"`
	Exit   int          `json:"exit"`
	Host   string       `json:"host"`
	Holder lease.Holder `json:"holder"`
	// Vanished: its holder never said how it ended.
	Vanished bool `json:"vanished,omitempty"`
}

// instant is the store's time now, in milliseconds.
type instant struct {
	boot string
	up   int64 // since that boot, sleep included
	wall int64
}

// remembered is how many runs and released holders a file keeps.
const remembered = 20

func (g *grant) lives(now instant) bool {
	return g != nil && g.Boot == now.boot && now.up < g.Expires
}

func (g *grant) extend(now instant) { g.Expires = max(now.up+g.TTL, g.MinHold) }

// free reports whether somebody who waits may be granted the key. While it
// settles that is a matter of time, which the candidate has been told.
func (st *state) free(now instant) bool { return !st.Grant.lives(now) && st.Missed == nil }

func (st *state) acquire(r lease.Request, now instant) (lease.Lease, error) {
	g := st.Grant
	if g.lives(now) && !g.Cooldown && g.Holder == r.Holder { // asked again
		g.extend(now)
		return st.lease(r.Period, now), nil
	}
	if slices.Contains(st.Released, r.Holder) {
		return lease.Lease{}, lease.ErrReleased
	}
	tick := cmp.Or(r.Tick, now.wall)
	if covers(st.Served, tick, r.Period, now) {
		return lease.Lease{}, &lease.DoneError{Ago: since(st.Served, now)}
	}
	if g.lives(now) {
		return lease.Lease{}, st.denial(now)
	}
	if left := st.settle(r, now); left > 0 {
		return lease.Lease{}, &lease.SettlingError{Remaining: milliseconds(left), Why: lease.SettleRollback, Tick: now.wall}
	}
	if r.Tries > 0 && st.Starts >= r.Tries && covers(st.Anchor, tick, r.Period, now) {
		return lease.Lease{}, &lease.DoneError{Ago: since(st.Anchor, now), GivenUp: true}
	}
	if g != nil && !g.Cooldown && g.Holder != r.Holder {
		st.file(run{Token: st.Token, Tick: g.Tick, Start: g.Started, Host: g.Holder.Host(), Holder: g.Holder, Vanished: true})
	}
	st.grant(max(st.Token+1, r.SeenToken+1, now.wall), &grant{
		Holder: r.Holder, TTL: r.TTL.Milliseconds(), Boot: now.boot,
		Acquired: now.up, MinHold: now.up + r.MinHold.Milliseconds(),
		Started: now.wall, Tick: tick, Meta: r.Meta,
	}, r.Period, now)
	return st.lease(r.Period, now), nil
}

func (st *state) renew(l lease.Lease, now instant) (lease.Lease, error) {
	g := st.Grant
	if g.lives(now) && st.owns(l) && !g.Cooldown {
		g.extend(now)
		return st.lease(l.Period, now), nil
	}
	// A file that is behind the lease has been lost. Nobody was granted since,
	// and the holder puts the lease back while it can still be valid.
	if g.lives(now) || st.Token >= l.Token || now.up >= l.Until || slices.Contains(st.Released, l.Holder) {
		return lease.Lease{}, lease.ErrLost
	}
	st.grant(l.Token, &grant{
		Holder: l.Holder, TTL: l.TTL.Milliseconds(), Boot: now.boot,
		Acquired: l.AcquiredAt, MinHold: l.MinHoldUntil,
		Started: now.wall - (now.up - l.AcquiredAt), Tick: l.Tick, Meta: l.Meta,
	}, l.Period, now)
	l = st.lease(l.Period, now)
	l.Reasserted = true
	return l, nil
}

// release may be called again after a lost reply, and after a loss: whatever of
// it has been done is not done twice.
func (st *state) release(l lease.Lease, r lease.Result, now instant) error {
	if !slices.Contains(st.Released, l.Holder) {
		st.Released = slices.Insert(st.Released, 0, l.Holder)
		st.Released = st.Released[:min(len(st.Released), remembered)]
	}
	own := st.owns(l)
	if own {
		st.end(l, r, now)
	}
	if r.Success && l.Period > 0 && (l.Tick > st.Served || ahead(st.Served, l.Period, now)) {
		st.Served = l.Tick
	}
	if r.Ran {
		st.file(run{Token: l.Token, Tick: l.Tick, Start: now.wall - (now.up - l.AcquiredAt), End: now.wall,
			Exit: r.Exit, Host: l.Holder.Host(), Holder: l.Holder})
	}
	if !own && st.Grant.lives(now) {
		return lease.ErrLost
	}
	return nil
}

// end turns the own grant into a cooldown, or removes it.
func (st *state) end(l lease.Lease, r lease.Result, now instant) {
	if r.Ran && st.Grant.MinHold > now.up {
		st.Grant.Cooldown, st.Grant.Expires = true, st.Grant.MinHold
		return
	}
	st.Grant = nil
	if !r.Ran && l.Period > 0 && sameRound(st.Anchor, l.Tick, l.Period) && st.Starts > 0 {
		st.Starts--
	}
}

func (st *state) owns(l lease.Lease) bool {
	return st.Grant != nil && st.Grant.Holder == l.Holder && st.Token == l.Token
}

// grant makes g the newest grant and counts it as a start of its tick.
func (st *state) grant(token int64, g *grant, period time.Duration, now instant) {
	st.Token, st.Grant, st.Missed = token, g, nil
	g.extend(now)
	switch {
	case covers(st.Anchor, g.Tick, period, now):
		st.Starts++
	case period > 0:
		st.Anchor, st.Starts = g.Tick, 1
	}
}

// lease is the living grant as its holder is told.
func (st *state) lease(period time.Duration, now instant) lease.Lease {
	g := st.Grant
	return lease.Lease{
		Key: st.Key, Holder: g.Holder, Token: st.Token, TTL: milliseconds(g.TTL),
		AcquiredAt: g.Acquired, MinHoldUntil: g.MinHold, Until: now.up + g.TTL,
		Tick: g.Tick, Period: period, Meta: g.Meta,
	}
}

func (st *state) denial(now instant) *lease.HeldError {
	g := st.Grant
	e := &lease.HeldError{Value: string(g.Holder), Why: lease.HeldLeader, Token: st.Token,
		Remaining: milliseconds(g.Expires - now.up), TTL: milliseconds(g.TTL),
		Since: milliseconds(now.up - g.Acquired), Tick: now.wall}
	if g.Cooldown {
		e.Why = lease.HeldCooldown
	}
	return e
}

// settle returns how long a candidate that knows of a larger token must still
// wait for the holder of that one, who re-asserts its lease if it lives.
func (st *state) settle(r lease.Request, now instant) (left int64) {
	if r.SeenToken <= st.Token {
		return 0
	}
	if st.Missed == nil || st.Missed.Boot != now.boot {
		st.Missed = &missed{Boot: now.boot, Since: now.up}
	}
	return st.Missed.Since + r.SeenTTL.Milliseconds() - now.up
}

// file keeps one entry per token; what a holder says replaces that it vanished.
func (st *state) file(r run) {
	i := slices.IndexFunc(st.Runs, func(old run) bool { return old.Token <= r.Token })
	switch {
	case i < 0:
		st.Runs = append(st.Runs, r)
	case st.Runs[i].Token < r.Token:
		st.Runs = slices.Insert(st.Runs, i, r)
	case st.Runs[i].Vanished:
		st.Runs[i] = r
	}
	st.Runs = st.Runs[:min(len(st.Runs), remembered)]
}

// covers reports whether a candidate with this tick is late for what happened at
// mark.
func covers(mark, tick int64, period time.Duration, now instant) bool {
	return period > 0 && sameRound(mark, tick, period) && !ahead(mark, period, now)
}

// sameRound reports whether tick is not of a later round than mark: hosts see
// one round at times that differ by less than half a period.
func sameRound(mark, tick int64, period time.Duration) bool {
	return tick < mark+(period.Milliseconds()+1)/2
}

// ahead reports whether mark can only stem from a clock that was wrong: it must
// not silence a job until that time comes.
func ahead(mark int64, period time.Duration, now instant) bool {
	return mark > now.wall+period.Milliseconds()
}

// since is how long ago an instant of wall time was.
func since(wall int64, now instant) time.Duration { return milliseconds(max(0, now.wall-wall)) }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
