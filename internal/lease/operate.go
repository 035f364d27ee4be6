package lease

import (
	"context"
	"time"
)

// Admin is the part of a store for operators: to inspect keys, pause them, and end other
// holders' leases. Every store implements it. What it returns may have been written by
// anybody: treat texts as hostile.
type Admin interface {
	// Inspect returns what the store knows about key, and changes nothing. An unknown key
	// is free. Errors: *StoreError.
	Inspect(ctx context.Context, key string) (Status, error)

	// Follow blocks until the key may have another leader or none, in another way than in
	// from, or until atMost has passed. It is a hint, as Wait is. Errors: ErrNoWakeups, at once,
	// if the store shows changes only to those who want the key; *StoreError.
	Follow(ctx context.Context, from Status, atMost time.Duration) error

	// Keys lists the keys of this prefix that the store knows, in order. Errors:
	// *StoreError, permanent if rights are missing.
	Keys(ctx context.Context) ([]string, error)

	// HandOver asks the leader to stop its command and to release, and returns the status
	// after that; its HandOver is false if there is no leader. Repeating it is no error.
	// Errors: *StoreError.
	HandOver(ctx context.Context, key string) (Status, error)

	// Revoke takes the lease from its holder and returns the status before. The holder
	// learns of it at its next renewal, which comes at once if the store can call it,
	// stops its tree and frees the key. If the holder is dead, the key is free after its
	// TTL at most. A minimum hold ends at once. A foreign value stays. With now the key
	// is free at once, whatever its value and even if a tree still runs. The token
	// grows, so that a sink that has seen it refuses the old holder. Errors: *StoreError.
	Revoke(ctx context.Context, key string, now bool) (Status, error)

	// Pause lets nobody be granted the key for d, in whole milliseconds and at most
	// MaxPause, and returns the status after that. It replaces a current pause. The
	// holder keeps its lease, and may renew and restore it. by and reason say who paused
	// the key and why. Errors: *StoreError.
	Pause(ctx context.Context, key string, d time.Duration, by, reason string) (Status, error)

	// Resume ends a pause, wakes a standby and returns the status before. Repeating
	// it is no error. Errors: *StoreError.
	Resume(ctx context.Context, key string) (Status, error)

	// Forget removes what is known about a key that is at rest, see [Status.AtRest], its
	// token only if token is set, and returns the status before. It does not change other
	// keys. Holders that have released the key still are never granted it again. Errors:
	// *StoreError.
	Forget(ctx context.Context, key string, token bool) (Status, error)
}

// Status is what a store knows about a key at one instant. Times are the store's, in
// milliseconds since its epoch; 0 means unknown.
type Status struct {
	Key string
	Why How // "" if nobody has the key
	// Value is the value of the key, cut to 256 bytes. It can be anything if Why is
	// Foreign.
	Value string
	// Holder is the holder of the newest grant, "" if it was released. A free key with a
	// holder has not been released. The holder of a revoked key has yet to stop.
	Holder Holder
	// Token is the token of the newest grant, or the larger one of Revoke. A sink must
	// refuse anything older.
	Token int64
	// Remaining is the time until the key expires if nobody renews it, 0 if it never
	// does. TTL is the holder's.
	Remaining, TTL time.Duration
	// Now is the time of this answer, Since the time of the grant, and MinHoldUntil the end of
	// its minimum hold. After a release Since, MinHoldUntil, TTL, Tick and Meta are unknown,
	// unless the minimum hold goes on.
	Now, Since, MinHoldUntil int64
	// Tick is the tick of the newest grant, ServedTick the last tick that needs no run any
	// more, and Starts the number of starts for the newest tick.
	Tick, ServedTick int64
	Starts           int
	// Period is the period of the newest grant with ticks, 0 if there was none. Tries is
	// its limit of starts per tick; 0 means no limit, or unknown.
	Period time.Duration
	Tries  int
	// HandOver: the holder has been asked to hand over.
	HandOver bool
	// Meta is the Request.Meta of the grant.
	Meta string
	// Runs are the last ones, newest token first, at most 20.
	Runs []Run
	// Pause is the current pause; zero if there is none.
	Pause Pause
	// Candidates are the hosts that have asked for the key with ticks, at most 64.
	Candidates []Candidate
}

// How says how the key is, apart from a pause.
func (s Status) How() How {
	switch {
	case s.Why != "":
		return s.Why
	case s.Holder != "":
		return Vanished
	}
	return Free
}

// Condition returns how the key is, apart from a pause.
func (s Status) Condition() Condition {
	c := Condition{Why: s.How(), Value: s.Value, Host: s.Holder.Host(), Token: s.Token, Remaining: s.Remaining, TTL: s.TTL, HandOver: s.HandOver}
	if ValidTime(s.Since) && ValidTime(s.Now) {
		c.Since = time.Duration(max(s.Now-s.Since, 0)) * time.Millisecond
	}
	return c
}

// Paused returns the current pause as a condition, zero if there is none.
func (s Status) Paused() Condition {
	if s.Pause == (Pause{}) {
		return Condition{}
	}
	return Condition{Why: Paused, Pause: s.Pause, Remaining: s.Pause.Left(s.Now)}
}

// AtRest reports whether the key is free, was released or revoked, and is not paused.
func (s Status) AtRest() bool { return s.Why == "" && s.Holder == "" && s.Pause == (Pause{}) }

// MaxPause limits a pause, since somebody may forget to end it.
const MaxPause = 90 * 24 * time.Hour

// Pause is a time in which nobody is granted a key, in the form that stores keep. Times
// are the store's, in milliseconds since its epoch.
type Pause struct {
	Since int64 `json:"since"`
	Until int64 `json:"until"`
	// By is who paused the key, user@host, and Reason is why: one line each.
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Left returns the rest of the pause at the store's time now: never more than its length,
// if the clock has gone back, and 0 if its times are invalid.
func (p Pause) Left(now int64) time.Duration {
	all := p.Until - p.Since
	if p.Since <= 0 || all <= 0 || all > MaxPause.Milliseconds() {
		return 0
	}
	return time.Duration(max(0, min(p.Until-now, all))) * time.Millisecond
}

// Going returns the pause, safe to print, if it is current, else zero.
func (p Pause) Going(now int64) Pause {
	if p.Left(now) == 0 {
		return Pause{}
	}
	p.By, p.Reason = Readable(Cut(p.By, MaxMeta)), Readable(Cut(p.Reason, MaxMeta))
	return p
}

// Candidate is a host that asks for a key with ticks, in the form that stores keep. Times
// are the store's, in milliseconds since its epoch.
type Candidate struct {
	Host string `json:"host"`
	// First is when it first came, as far as known, and Last when it last came: to the
	// hour, if it was not granted the key then.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Run is a store's record of one run, in the form that stores keep. Times are the store's,
// in milliseconds since its epoch.
type Run struct {
	Token int64 `json:"token"`
	Tick  int64 `json:"tick"`
	Start int64 `json:"start"`
	// End is 0, or the end of the lease, for a run that vanished.
	End  int64 `json:"end"`
	Exit int   `json:"exit"`
	// Outcome is that of its Result; "" if it vanished.
	Outcome string `json:"outcome,omitempty"`
	// Vanished: its holder never reported how it ended.
	Vanished bool   `json:"vanished,omitempty"`
	Host     string `json:"host"`
	Holder   Holder `json:"holder"`
}
