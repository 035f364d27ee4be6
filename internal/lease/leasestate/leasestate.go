// Package leasestate holds the contract of package lease as rules for stores that
// only keep what they are given: a state per key, read as a whole and replaced as
// a whole while nobody else can change it. Stores that run scripts of their own
// have these rules in their scripts; the contract suite judges both.
//
// It promises to grant no key twice, on the store's time as its caller gives it, and
// to see neither a file, a network nor a clock. It does not promise anything when
// two changes of one state overlap: that is the store's part.
package leasestate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// State is all that a store knows about one key; see New. Its methods change it
// even where they return an error: it is to be kept all the same.
type State struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Token   int64  `json:"token"` // the largest ever granted
	// Grant is the newest one, from then on until it is released and its
	// minimum hold is over. Whether it still lives is a matter of time.
	Grant *Grant `json:"grant,omitempty"`
	// Released holders, newest first, are never granted again: a duplicate of
	// their request may still arrive.
	Released []lease.Holder `json:"released,omitempty"`
	// Served is the tick of the last success, Anchor the first tick of those
	// whose starts are counted together.
	Served int64 `json:"served,omitempty"`
	Anchor int64 `json:"anchor,omitempty"`
	Starts int   `json:"starts,omitempty"`
	// Period is that of the newest grant with ticks, in ms.
	Period int64 `json:"period_ms,omitempty"`
	// Settling is under way: a holder that may be alive has been called.
	Settling *Settling `json:"settling,omitempty"`
	// Server made the last grant or renewal; "" is unknown.
	Server string `json:"server,omitempty"`
	// Keep is for how many milliseconds after its last change the state must be
	// kept; see Idle.
	Keep int64 `json:"keep_ms,omitempty"`
	// Paused is the last pause, which may be over.
	Paused *lease.Pause `json:"pause,omitempty"`
	// Runs are sorted by token, newest first.
	Runs []lease.Run `json:"runs,omitempty"`
}

// Grant is a lease as the store has it.
type Grant struct {
	Holder   lease.Holder `json:"holder"`
	TTL      int64        `json:"ttl_ms"`
	Boot     string       `json:"boot"`
	Acquired int64        `json:"acquired"`            // this and the next two: ms of that boot
	MinHold  int64        `json:"min_hold"`            // until then
	Expires  int64        `json:"expires"`             // never before MinHold
	Started  int64        `json:"started"`             // wall time, ms
	Tick     int64        `json:"tick"`                // wall time, ms
	Cooldown bool         `json:"cooldown"`            // released, only its minimum hold is left
	Revoked  bool         `json:"revoked,omitempty"`   // taken from its holder, who is still to release it
	HandOver bool         `json:"hand_over,omitempty"` // its holder is asked to release it
	Meta     string       `json:"meta,omitempty"`
}

// Settling is a time for which nobody is granted the key.
type Settling struct {
	Boot  string `json:"boot"`
	Since int64  `json:"since"` // ms of that boot
	Due   int64  `json:"due"`   // ms of that boot: it ends
	// Server is where it began: it does not count on another one.
	Server string `json:"server,omitempty"`
}

// Instant is the store's time now, in milliseconds. Leases run on Up, which means
// nothing in another Boot; ticks, tokens and the history on Wall.
type Instant struct {
	Boot string
	Up   int64
	Wall int64
	// Settle is how long a key settles where a holder may be alive of which this
	// store cannot know: 0 if its clock cannot be set and it loses nothing.
	Settle int64
	// Server names the store's server, "" where there is none or it is unknown.
	// Another one may know less than was acknowledged. Serving is for how long
	// this one has kept all that it acknowledged.
	Server  string
	Serving int64
	// Apart is by how much the clocks may differ that give instants, 0 if there is one
	// clock. Then a lease that nobody has released is over so much later, but for a
	// caller whose own clock says that it was not renewed for its TTL; and what settles
	// does so by the caller's own clock alone. Unrenewed is for how long the caller has
	// seen the newest grant as it is, Settled that the key settles, 0 if it did not.
	Apart, Unrenewed, Settled int64
}

// Version is that of the form in which a State is kept.
const Version = 1

// New is the state of a key that nobody has asked for.
func New(key string) State {
	return State{Version: Version, Key: key, Keep: MinKeep.Milliseconds()}
}

// MinKeep is the shortest life of a state after its last change. It must outlast
// the silence of a monthly job.
const MinKeep = 35 * 24 * time.Hour

// Idle reports whether a state that was last changed then, in wall time, may be
// forgotten: after max(MinKeep, 3 periods, 2 TTLs), and never during a lease. What
// is lost are the runs, the ticks, which are all served by then, and the token:
// the next one is the time, which is larger unless the clock has been set back by
// as much. A state of an older leaderrun does not say how long it must be kept.
func (st *State) Idle(changed int64, now Instant) bool {
	return st.Keep > 0 && changed+st.Keep < now.Wall && !st.Grant.lives(now)
}

// remember has the state kept for no less than a lease and its ticks need. A run
// without ticks does not shorten the life of those of others.
func (st *State) remember(ttl, period, hold int64) {
	st.Keep = max(st.Keep, MinKeep.Milliseconds(), 3*period, 2*ttl, hold)
}

// Check refuses what these rules never leave behind.
func (st *State) Check(key string) error {
	const maxToken = 1 << 53
	g := st.Grant
	switch {
	case st.Version != Version:
		return fmt.Errorf("format version %d, this leaderrun writes %d", st.Version, Version)
	case st.Key != key:
		return fmt.Errorf("it belongs to key %q", st.Key)
	case st.Token < 0 || st.Token > maxToken:
		return fmt.Errorf("token %d is out of range", st.Token)
	case st.Keep < 0 || st.Keep > maxToken:
		return fmt.Errorf("it is to be kept for %d ms", st.Keep)
	case st.Period < 0 || st.Period > maxToken:
		return fmt.Errorf("a period of %d ms", st.Period)
	case st.Starts < 0:
		return fmt.Errorf("%d starts", st.Starts)
	case st.Paused != nil && st.Paused.Left(st.Paused.Since) == 0:
		return errors.New("its pause is not a possible one")
	case g != nil && (!g.Holder.Valid() || g.Boot == "" || g.TTL <= 0 || st.Token == 0):
		return errors.New("its grant is not a possible one")
	}
	return nil
}

// longestPeriod is ten years, in ms: sums of it stay in range.
const longestPeriod = 10 * 365 * 86_400_000

// remembered is how many released holders a state keeps.
const remembered = 20

// early is the first time, in ms, that a clock can show which is right: that of a
// host without one begins in 1970.
const early = 978_307_200_000

func (g *Grant) lives(now Instant) bool { return g.left(now) > 0 }

// left is for how long, in ms, the key stays taken if nobody renews the grant.
func (g *Grant) left(now Instant) int64 {
	switch {
	case g == nil || g.Boot != now.Boot:
		return 0
	case now.Apart == 0 || g.Cooldown:
		return g.Expires - now.Up
	}
	// The caller has seen a renewal no earlier than its holder asked for it.
	return max(g.rest(now), min(g.Expires+now.Apart-now.Up, g.TTL-now.Unrenewed))
}

// leads says whether g is a lease that its holder has and has not given up.
func (g *Grant) leads(now Instant) bool { return g.lives(now) && !g.Cooldown && !g.Revoked }

func (g *Grant) extend(now Instant) { g.Expires = now.Up + max(g.TTL, g.rest(now)) }

// rest is how much of the minimum hold is left: never more than all of it, if the
// clock has gone back.
func (g *Grant) rest(now Instant) int64 {
	return max(0, min(g.MinHold-now.Up, g.MinHold-g.Acquired))
}

// Free reports whether somebody who waits may be granted the key. While it
// settles that is a matter of time, which the candidate knows.
func (st *State) Free(now Instant) bool {
	return !st.Grant.lives(now) && st.Settling == nil && st.pause(now) == lease.Pause{}
}

// pause is the one that goes on, or zero.
func (st *State) pause(now Instant) lease.Pause {
	if st.Paused == nil {
		return lease.Pause{}
	}
	return st.Paused.Going(now.Wall)
}

// Acquire is [lease.Store]'s.
func (st *State) Acquire(r lease.Request, now Instant) (lease.Lease, error) {
	g := st.Grant
	if g != nil && g.Holder == r.Holder && !g.Cooldown && !g.Revoked && g.Boot == now.Boot { // asked again
		g.extend(now)
		st.Settling = nil
		return st.lease(r.Period, r.Exact), nil
	}
	if slices.Contains(st.Released, r.Holder) {
		return lease.Lease{}, lease.ErrReleased
	}
	if now.Wall < early {
		return lease.Lease{}, &lease.StoreError{Op: "acquire", Err: errors.New("the store's clock shows a time before 2001"), Hint: "set the clock of the store's host"}
	}
	if r.TickUntil != 0 && (now.Wall < r.TickFrom || now.Wall >= r.TickUntil) {
		return lease.Lease{}, &lease.ClockError{Tick: now.Wall}
	}
	tick, round, reach := cmp.Or(r.Tick, now.Wall), lease.Round(r.Period, r.Exact), lease.Reach(r.Period, r.Exact)
	if covers(st.Served, tick, round, now.Wall+reach) {
		return lease.Lease{}, &lease.DoneError{Ago: since(st.Served, now)}
	}
	if g.lives(now) {
		denial := st.denial(now)
		// It ends soon, and nobody has renewed it for long: the holder is called now, so
		// that a standby need not settle then.
		if now.Settle > 0 && !g.Cooldown && !g.Revoked && g.left(now) <= now.Settle+100 {
			st.settle(now.Settle, now)
		}
		return lease.Lease{}, denial
	}
	if p := st.pause(now); p != (lease.Pause{}) {
		return lease.Lease{}, &lease.PausedError{Pause: p, Remaining: p.Left(now.Wall), Tick: now.Wall}
	}
	if need, why := st.doubt(r, now); need > 0 {
		if left := st.settle(need, now); left > 0 {
			return lease.Lease{}, &lease.SettlingError{Remaining: milliseconds(left), Why: why, Tick: now.Wall}
		}
	}
	// A tick is not run after a newer one, whatever became of that.
	triedOut := r.Tries > 0 && st.Starts >= r.Tries
	if covers(st.Anchor, tick, round, now.Wall+reach) && (triedOut || !sameRound(tick, st.Anchor, round)) {
		return lease.Lease{}, &lease.DoneError{Ago: since(st.Anchor, now), GivenUp: true}
	}
	if g != nil && g.Holder != r.Holder {
		st.vanish()
	}
	st.grant(max(st.Token+1, r.Seen.Token+1, now.Wall), &Grant{
		Holder: r.Holder, TTL: r.TTL.Milliseconds(), Boot: now.Boot,
		Acquired: now.Up, MinHold: now.Up + r.MinHold.Milliseconds(),
		Started: now.Wall, Tick: tick, Meta: r.Meta,
	}, r.Period, r.Exact, now)
	return st.lease(r.Period, r.Exact), nil
}

// Renew is [lease.Store]'s. A lease that is over by the store's clock comes back
// as long as it was neither released nor followed by another grant: the holder
// renews only while it is valid by its own clock. A renewal that arrives late, of
// a holder that has died, keeps others waiting for a TTL and does no other harm.
func (st *State) Renew(l lease.Lease, now Instant) (lease.Lease, error) {
	g := st.Grant
	switch {
	case g != nil && g.Holder == l.Holder && g.Revoked && g.lives(now):
		return lease.Lease{}, lease.ErrRevoked
	case st.owns(l) && !g.Cooldown && !g.Revoked && g.Boot == now.Boot:
		l.Reasserted = !g.lives(now)
		g.extend(now)
	// A state that is behind the lease has been lost.
	case g.lives(now) || st.Token >= l.Token || slices.Contains(st.Released, l.Holder):
		return lease.Lease{}, lease.ErrLost
	default:
		st.grant(l.Token, &Grant{
			Holder: l.Holder, TTL: l.TTL.Milliseconds(), Boot: now.Boot,
			Acquired: l.AcquiredAt, MinHold: l.MinHoldUntil,
			Started: now.Wall - (now.Up - l.AcquiredAt), Tick: l.Tick, Meta: l.Meta,
		}, l.Period, l.Exact, now)
		l.Reasserted = true
	}
	st.Server, st.Settling = now.Server, nil
	renewed := st.lease(l.Period, l.Exact)
	renewed.Reasserted = l.Reasserted
	return renewed, nil
}

// Release is [lease.Store]'s. It may be called again after a lost reply, and after a loss: whatever of
// it has been done is not done twice.
func (st *State) Release(l lease.Lease, r lease.Result, now Instant) error {
	st.retire(l.Holder)
	own := st.owns(l)
	if own {
		st.Settling = nil // its holder has been heard of
		st.end(l, r, now)
	}
	if r.Success && lease.Round(l.Period, l.Exact) > 0 && (l.Tick > st.Served || st.Served > now.Wall+lease.Reach(l.Period, l.Exact)) {
		st.Served = l.Tick
		st.remember(l.TTL.Milliseconds(), l.Period.Milliseconds(), 0)
	}
	if r.Ran {
		st.note(lease.Run{Token: l.Token, Tick: l.Tick, Start: now.Wall - (now.Up - l.AcquiredAt), End: now.Wall,
			Exit: r.Exit, Host: l.Holder.Host(), Holder: l.Holder})
	}
	if !own && st.Grant.lives(now) {
		return lease.ErrLost
	}
	return nil
}

// end turns the own grant into a cooldown, or removes it.
func (st *State) end(l lease.Lease, r lease.Result, now Instant) {
	if r.Ran && st.Grant.MinHold > now.Up && !st.Grant.Revoked {
		st.Grant.Cooldown, st.Grant.Expires = true, st.Grant.MinHold
		return
	}
	st.Grant = nil
	if round := lease.Round(l.Period, l.Exact); !r.Ran && round > 0 && sameRound(st.Anchor, l.Tick, round) && st.Starts > 0 {
		st.Starts--
	}
}

// owns says whether the newest grant is l. Revoking one moves the token on.
func (st *State) owns(l lease.Lease) bool {
	return st.Grant != nil && st.Grant.Holder == l.Holder && (st.Token == l.Token || st.Grant.Revoked)
}

// HandOver is [lease.Admin]'s.
func (st *State) HandOver(now Instant) {
	if st.Grant.leads(now) {
		st.Grant.HandOver = true
	}
}

// Revoke is [lease.Admin]'s.
func (st *State) Revoke(atOnce bool, now Instant) {
	g := st.Grant
	if !atOnce && (!g.lives(now) || g.Revoked) {
		return
	}
	st.vanish()
	if g != nil {
		st.retire(g.Holder)
	}
	st.Token = max(st.Token+1, now.Wall)
	st.Settling = nil
	if atOnce || g.Cooldown {
		st.Grant = nil
		return
	}
	g.Revoked, g.HandOver = true, false
}

// Pause is [lease.Admin]'s. A clock before 1970 begins none.
func (st *State) Pause(d time.Duration, by, reason string, now Instant) {
	p := lease.Pause{Since: now.Wall, Until: now.Wall + min(d, lease.MaxPause).Milliseconds(), By: by, Reason: reason}.Going(now.Wall)
	if p != (lease.Pause{}) {
		st.Paused = &p
		st.remember(0, 0, p.Until-p.Since)
	}
}

// Resume is [lease.Admin]'s.
func (st *State) Resume() { st.Paused = nil }

// Status is [lease.Admin]'s.
func (st *State) Status(now Instant) lease.Status {
	s := lease.Status{Key: st.Key, Token: st.Token, Now: now.Wall, Served: st.Served, Starts: st.Starts, Period: milliseconds(min(st.Period, longestPeriod)), Runs: lease.ValidRuns(st.Runs), Pause: st.pause(now)}
	g := st.Grant
	if g == nil || (g.Cooldown || g.Revoked) && !g.lives(now) {
		return s
	}
	s.TTL, s.Since, s.MinHold, s.Tick = milliseconds(g.TTL), g.Started, g.Started+g.MinHold-g.Acquired, g.Tick
	s.HandOver, s.Meta = g.HandOver && g.leads(now), lease.Cut(g.Meta, lease.MaxMeta)
	if !g.Cooldown {
		s.Holder = g.Holder
	}
	if g.lives(now) {
		s.Value, s.Why, s.Remaining = string(g.Holder), g.why(), milliseconds(max(1, min(g.left(now), g.Expires-now.Up)))
	}
	return s
}

// grant makes g the newest grant and counts it as a start of its tick.
func (st *State) grant(token int64, g *Grant, period time.Duration, exact bool, now Instant) {
	st.Token, st.Grant, st.Settling, st.Server = token, g, nil, now.Server
	g.extend(now)
	st.remember(g.TTL, period.Milliseconds(), g.MinHold-g.Acquired)
	if period > 0 {
		st.Period = period.Milliseconds()
	}
	switch round := lease.Round(period, exact); {
	case covers(st.Anchor, g.Tick, round, now.Wall+lease.Reach(period, exact)):
		st.Starts++
	case round > 0:
		st.Anchor, st.Starts = g.Tick, 1
	}
}

// lease is the living grant as its holder gets it.
func (st *State) lease(period time.Duration, exact bool) lease.Lease {
	g := st.Grant
	return lease.Lease{
		Key: st.Key, Holder: g.Holder, Token: st.Token, TTL: milliseconds(g.TTL),
		AcquiredAt: g.Acquired, MinHoldUntil: g.MinHold,
		Tick: g.Tick, Period: period, Exact: exact, Meta: g.Meta, HandOver: g.HandOver,
	}
}

// denial says who has the key, and for how long at most: a clock that has gone
// back must not make that longer than any lease lasts.
func (st *State) denial(now Instant) *lease.HeldError {
	g := st.Grant
	g.Expires = min(g.Expires, now.Up+max(g.TTL, g.rest(now))+now.Apart)
	return &lease.HeldError{Value: string(g.Holder), Why: g.why(), Token: st.Token,
		Remaining: milliseconds(g.left(now)), TTL: milliseconds(g.TTL),
		Since: milliseconds(max(0, now.Up-g.Acquired)), Expires: g.Expires, Tick: now.Wall}
}

// why says in which way a grant that lives takes the key.
func (g *Grant) why() lease.HeldReason {
	switch {
	case g.Cooldown:
		return lease.HeldCooldown
	case g.Revoked:
		return lease.HeldRevoked
	}
	return lease.HeldLeader
}

// doubt says how long the key has to settle before r is granted anything, and
// why: a holder may be alive of which this store cannot know, or whose lease is
// over by the store's clock alone.
func (st *State) doubt(r lease.Request, now Instant) (need int64, why lease.SettleReason) {
	wait := func(ms int64, reason lease.SettleReason) {
		if ms > need {
			need, why = ms, reason
		}
	}
	if r.Seen.Token > st.Token {
		wait(max(now.Settle, r.Seen.TTL.Milliseconds()), lease.SettleRollback)
		return need, why
	}
	if now.Settle == 0 {
		return 0, ""
	}
	if st.Token == 0 && now.Serving <= max(2*r.TTL.Milliseconds(), serving) {
		wait(now.Settle, lease.SettleFresh)
	}
	if st.Server != "" && now.Server != "" && st.Server != now.Server {
		wait(now.Settle, lease.SettleRestarted)
	}
	g := st.Grant
	if g == nil || g.Cooldown || g.Revoked {
		return need, why
	}
	wait(now.Settle, lease.SettleExpired)
	if r.Seen.Token == st.Token && r.Seen.Expires == g.Expires { // its own clock may know better
		wait(min((r.Seen.Left+time.Millisecond-1).Milliseconds(), g.TTL), lease.SettleExpired)
	}
	return need, why
}

// serving is how long, in ms, a server must have kept all that it acknowledged
// until a key that it does not know is one that nobody has asked for: longer than
// any lease that could have been lost, see also two TTLs.
const serving = 90_000

// settle begins a settling or goes on with the one that is under way, and returns
// how long it still lasts.
func (st *State) settle(need int64, now Instant) (left int64) {
	const (
		asked   = 60_000     // all who waited for a settling have asked again by then
		longest = 86_400_000 // no settling lasts longer
	)
	s := st.Settling
	if s == nil || s.Boot != now.Boot || s.Server != now.Server || s.Since > now.Up+now.Apart || s.Due-now.Up > longest || now.Up-s.Due > asked+now.Apart {
		s = &Settling{Boot: now.Boot, Since: now.Up, Due: now.Up, Server: now.Server}
		st.Settling, now.Settled = s, 0
	}
	s.Due = max(s.Due, s.Since+need)
	if now.Apart > 0 {
		return s.Due - s.Since - now.Settled
	}
	return s.Due - now.Up
}

// vanish files the run of the newest grant, if it is one of which nobody has said
// how it ended.
func (st *State) vanish() {
	if g := st.Grant; g != nil && !g.Cooldown && !g.Revoked {
		st.note(lease.Run{Token: st.Token, Tick: g.Tick, Start: g.Started, Host: g.Holder.Host(), Holder: g.Holder, Vanished: true})
	}
}

// retire remembers a holder that is never granted anything again.
func (st *State) retire(holder lease.Holder) {
	if !slices.Contains(st.Released, holder) {
		st.Released = slices.Insert(st.Released, 0, holder)
		st.Released = st.Released[:min(len(st.Released), remembered)]
	}
}

// note keeps one entry per token; what a holder says replaces that it vanished.
func (st *State) note(r lease.Run) {
	i := slices.IndexFunc(st.Runs, func(old lease.Run) bool { return old.Token <= r.Token })
	switch {
	case i < 0:
		st.Runs = append(st.Runs, r)
	case st.Runs[i].Token < r.Token:
		st.Runs = slices.Insert(st.Runs, i, r)
	case st.Runs[i].Vanished:
		st.Runs[i] = r
	}
	st.Runs = st.Runs[:min(len(st.Runs), lease.MaxRuns)]
}

// covers reports whether a candidate with this tick is late for what happened at
// mark. One after most is of a clock that was wrong: it must not silence a job until
// that time comes.
func covers(mark, tick, round, most int64) bool {
	return round > 0 && sameRound(mark, tick, round) && mark <= most
}

// sameRound reports whether tick is not of a later round than mark.
func sameRound(mark, tick, round int64) bool { return tick < mark+round }

// since is how long ago an Instant of wall time was.
func since(wall int64, now Instant) time.Duration { return milliseconds(max(0, now.Wall-wall)) }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
