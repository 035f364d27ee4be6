package lease

import (
	"context"
	"time"
)

// Admin is what people do with keys under which they run nothing: look at
// them, and end other people's leases. Every store is one. All that it returns may
// have been written by anybody: treat texts as hostile.
type Admin interface {
	// Inspect returns what the store knows of key, and changes nothing. A key that
	// it has never heard of is free. Errors: *StoreError.
	Inspect(ctx context.Context, key string) (Status, error)

	// Keys lists the keys of this prefix that the store has any memory of, in
	// order. Errors: *StoreError, permanent where the rights do not allow it.
	Keys(ctx context.Context) ([]string, error)

	// HandOver asks the leader to stop its command and to release, and returns
	// the status with that: HandOver is false when there is no leader to ask.
	// Repeating it is no error. Errors: *StoreError.
	HandOver(ctx context.Context, key string) (Status, error)

	// Revoke takes the lease from its holder and returns the status before. The
	// holder learns of it at its next renewal, which Revoke brings about where
	// the store is a [Pinger], stops its tree and frees the key; a holder that is
	// dead costs at most its TTL. A minimum hold ends at once; a foreign value
	// stays. With now the key is free at once, whatever stands there and whether
	// a tree still runs or not. The token moves on, so that a sink that knows it
	// refuses the old holder. Errors: *StoreError.
	Revoke(ctx context.Context, key string, now bool) (Status, error)

	// Pause has nobody granted the key for d, in whole milliseconds and at most
	// MaxPause, and returns the status with that. A pause that goes on is replaced.
	// The holder keeps its lease, which it may renew and bring back. By is who wants
	// it, reason why. Errors: *StoreError.
	Pause(ctx context.Context, key string, d time.Duration, by, reason string) (Status, error)

	// Resume ends a pause, wakes a standby and returns the status before. Repeating
	// it is no error. Errors: *StoreError.
	Resume(ctx context.Context, key string) (Status, error)

	// Forget removes what is known of a key that is at rest, see [Status.AtRest], and
	// its token only if that is asked for, and returns the status before. Of any other
	// key it changes nothing. Who has released the key is never granted it again all the
	// same. Errors: *StoreError.
	Forget(ctx context.Context, key string, token bool) (Status, error)
}

// Status is what a store knows of a key at one instant. Times are the store's,
// in milliseconds since its epoch; 0 means that it does not know.
type Status struct {
	Key string
	Why HeldReason // "" when the key is free
	// Value is what stands at the key, cut to 256 bytes: anything at all when
	// Why is HeldForeign.
	Value string
	// Holder is that of the newest grant, "" when it has been released. A free
	// key with a holder was left by one that vanished. Of a revoked key it is the
	// one that is still to stop.
	Holder Holder
	// Token is that of the newest grant, or what Revoke made of it; nothing older
	// may write to a sink.
	Token int64
	// Remaining is the time until the key expires if nobody renews it, 0 where it
	// never does; TTL the holder's own.
	Remaining, TTL time.Duration
	// Now is the time of this answer, Since that of the grant, MinHold the end
	// of its minimum hold. Of a grant that has been released only the token
	// is known, unless it cools down; so it is with TTL, Tick and Meta.
	Now, Since, MinHold int64
	// Tick is that of the newest grant, Served the last one that needs no run any
	// more, and Starts how many runs were started for the newest tick.
	Tick, Served int64
	Starts       int
	// Period is that of the newest grant with ticks, 0 if there was none. Tries is the
	// most starts that it allowed its tick; 0 is any number, or unknown.
	Period time.Duration
	Tries  int
	// HandOver says that the holder has been asked to hand over.
	HandOver bool
	// Meta is what Request.Meta was.
	Meta string
	// Runs are the last ones, newest token first, at most 20.
	Runs []Run
	// Pause goes on; zero is none.
	Pause Pause
	// Candidates are the hosts that have asked for the key with ticks, at most 64.
	Candidates []Candidate
}

// AtRest reports whether nobody has the key, whoever had it has released it or had it
// taken away, and no pause goes on.
func (s Status) AtRest() bool { return s.Why == "" && s.Holder == "" && s.Pause == (Pause{}) }

// MaxPause is how long a pause lasts at most, as somebody may forget to end it.
const MaxPause = 90 * 24 * time.Hour

// Pause is a time for which nobody is granted a key, in the form in which stores
// keep it. Times are the store's, in milliseconds since its epoch.
type Pause struct {
	Since int64 `json:"since"`
	Until int64 `json:"until"`
	// By is who wants it, user@host, and Reason why: one line each.
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Left is how much of the pause is left at the store's time now: never more than
// all of it, if the clock has gone back, and nothing of one that cannot be.
func (p Pause) Left(now int64) time.Duration {
	all := p.Until - p.Since
	if p.Since <= 0 || all <= 0 || all > MaxPause.Milliseconds() {
		return 0
	}
	return time.Duration(max(0, min(p.Until-now, all))) * time.Millisecond
}

// Going is the pause while it goes on, fit for a terminal, and zero before and
// after.
func (p Pause) Going(now int64) Pause {
	if p.Left(now) == 0 {
		return Pause{}
	}
	p.By, p.Reason = Readable(Cut(p.By, MaxMeta)), Readable(Cut(p.Reason, MaxMeta))
	return p
}

// Candidate is a host that asks for a key with ticks, in the form in which stores
// keep it. Times are the store's, in milliseconds since its epoch.
type Candidate struct {
	Host string `json:"host"`
	// First is when it came first since it is known, Last when it came last: to the
	// hour, if it was not granted the key then.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Run is what a store files about one run, in the form in which it does. Times
// are the store's, in milliseconds since its epoch.
type Run struct {
	Token int64 `json:"token"`
	Tick  int64 `json:"tick"`
	Start int64 `json:"start"`
	// End is 0, or when the lease ran out, for a run that vanished.
	End  int64 `json:"end"`
	Exit int   `json:"exit"`
	// Vanished: its holder never said how it ended.
	Vanished bool   `json:"vanished,omitempty"`
	Host     string `json:"host"`
	Holder   Holder `json:"holder"`
}
