// Package lease names the things leaderrun deals in and states the contract
// that every store keeps. It imports nothing but the standard library and
// everything else may import it.
//
// The contract of a [Store]:
//
//   - At any instant, by the store's own clock, at most one holder has an
//     unexpired lease on a key.
//   - Acquire is idempotent for one holder: asking again while the lease lives
//     (a lost reply, a retry) gives the same token and tick. After that holder
//     has released, Acquire never grants to it again: every candidacy has a
//     holder id of its own.
//   - Each grant's token is larger than every token granted before on that key,
//     for ever, also over expiry, deletion and a flushed store.
//   - Renew and Release compare holder and token atomically in the store. Only
//     the own lease is ever renewed or released.
//   - [ErrLost] is definite. Every error that is not one of the sentinels or
//     types below means "unknown: it may have happened".
//   - Every call returns soon after its context ends.
//   - The TTL runs on the store's clock; no time of another clock is compared with
//     it. Where a store has none that all its servers share, a candidate measures by
//     its own how long a lease was not renewed.
//   - That clock may be set at any time. A renewal brings an expired lease back
//     as long as it was neither released nor followed by another grant. Before
//     anybody is granted a key that the last holder has not released, that holder
//     is called and has 300 ms to renew: the key settles. (A directory has the clock
//     of the holder's own kernel, and does without.) A candidate that is
//     denied when little is left of a lease has the holder called then, so that a
//     dead one is followed as soon as its lease is over.
//   - A store may come back with older data. A lease in it with a smaller token, that
//     nobody has renewed there, gives way to a renewal: it had ended before.
//   - A tick is served by a success, and needs no run any more. Ticks are compared with
//     each other and with the store's time, never with another clock: a candidate that
//     has chosen its tick by its own clock says for which times of the store that holds,
//     and is answered with the store's time instead of anything else if it does not.
//   - A host that asks with ticks is noted, with the time to the hour, whatever it is
//     answered. A note neither fails nor delays for long what it is beside.
//   - A paused key is granted to nobody. Its holder keeps the lease and may renew it,
//     bring it back and ask again.
//
// Not promised: a store that loses acknowledged writes (an asynchronous
// failover, a wiped disk) can grant twice. The token covers that, when it is
// claimed at the sink before the first write.
package lease

import (
	"context"
	"time"
)

// Store is one technology that can hold leases. Its methods may be called from
// several goroutines. It keeps no state about candidacies: all of it travels in
// Request and Lease.
type Store interface {
	// Acquire tries once to get the lease. Errors: *HeldError, *PausedError,
	// *SettlingError, *ClockError, ErrDone, ErrReleased, *StoreError. With ErrDone it has handed the wake-up
	// on, since a candidate that is done never asks again.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Renew extends the lease by its TTL from now on, or brings it back, and
	// returns it with what the store said. Errors: ErrLost, *StoreError.
	Renew(ctx context.Context, l Lease) (Lease, error)

	// Release ends the lease if it is still the caller's, files the run once
	// however often it is called, and wakes one standby. Repeating it is no
	// error. Call it also after a loss: it frees a revoked key. Errors: ErrLost
	// (another holder has the key, nothing of theirs was touched), *StoreError.
	Release(ctx context.Context, l Lease, r Result) error

	// Wait blocks until the key may have become free, or until atMost has
	// passed. It is a hint: it may return early or late. Errors: ErrNoWakeups
	// at once when this store cannot wake anybody, *StoreError.
	Wait(ctx context.Context, key string, atMost time.Duration) error

	// Pass hands a wake-up on that this candidate may have taken and will not
	// use. Losing it costs the others at most the holder's expiry.
	Pass(ctx context.Context, key string) error

	// Close gives up connections. It does not release leases.
	Close() error
}

// Pinger is what a store may be beside: one that can call on a holder, which
// then renews at once. It shortens the time in which a store that has lost its
// memory could grant to somebody else, and carries requests to hand over.
type Pinger interface {
	// Listen blocks until the store wants a sign of life from the holder of key. A
	// call made before may be kept for some seconds or be lost: the next renewal
	// says the same. Errors: ErrNoWakeups when this store cannot call, *StoreError
	// when the connection on which it was listening is gone, which the store itself
	// may be, too.
	Listen(ctx context.Context, key string) error
}

// Request is one attempt of one candidacy. All durations have a resolution of
// one millisecond.
type Request struct {
	Key    string
	Holder Holder
	TTL    time.Duration
	// MinHold keeps the key taken for at least this long after the grant, also
	// when the holder releases earlier or dies.
	MinHold time.Duration
	// Tick is the tick of the candidacy in the store's milliseconds; 0 asks the
	// store to use its time now, if the candidacy has ticks. TickFrom and TickUntil say for which times of the
	// store it was chosen, that one excluded, with *ClockError at any other; both 0: for all.
	Tick, TickFrom, TickUntil int64
	// Period is the distance of ticks, or from this one to the next; 0 is unknown.
	// Exact and Period say when two ticks are the same: see [Round]. Tries is the most
	// starts per tick (0: no limit).
	Period time.Duration
	Exact  bool
	Tries  int
	// Waits says that the candidate stands by if it is denied.
	Waits bool
	// Seen is the lease with the largest token that this candidate has seen.
	Seen Seen
	// Meta is stored with the grant for people to read: JSON, at most 4096 bytes.
	Meta string
}

// Round is by how many milliseconds ticks are apart that are not the same. Those of
// a period come from hosts that see one tick at times that differ by less than half of
// it. Exact ones are instants that were named, or those of a schedule. 0: ticks are
// neither read nor written.
func Round(period time.Duration, exact bool) int64 {
	if exact {
		return 1
	}
	return (period.Milliseconds() + 1) / 2
}

// Reach is how many milliseconds a recorded tick may be ahead of the store's time. One
// that is further ahead stems from a clock that was wrong, and counts for nothing. An
// exact tick may be one by a host's clock.
func Reach(period time.Duration, exact bool) int64 {
	const day = 86_400_000
	if exact {
		return max(period.Milliseconds(), day)
	}
	return period.Milliseconds()
}

// Tick is what a schedule says of one time: the tick At, which is that of all times
// from From until Until, that one excluded, and Period until the next one. All but the
// last are milliseconds since 1970. From and Until may both be 0, which is for ever.
type Tick struct {
	At, From, Until int64
	Period          time.Duration
}

// Seen is a lease as a candidate knows it, another holder's or an earlier one of its
// own; zero is none. A store that shows a smaller token has lost data, and the
// candidate waits TTL before it is granted anything. The own clock may also ask for
// more time than the store's, which may have been set.
type Seen struct {
	Token int64
	TTL   time.Duration
	// Expires is as in HeldError, Left what is left until then by the candidate's
	// own clock, which counts from the answer that showed it.
	Expires int64
	Left    time.Duration
}

// Lease is a grant as its holder knows it, and all that the store needs to
// rebuild its own state if it has lost the key but not the right to it. Times
// are the store's, in milliseconds since its epoch.
type Lease struct {
	Key    string
	Holder Holder
	Token  int64
	TTL    time.Duration
	// AcquiredAt is when the lease was granted, MinHoldUntil when the minimum
	// hold ends.
	AcquiredAt, MinHoldUntil int64
	// Tick, Period and Exact are as in Request; Tick is 0 without ticks.
	Tick   int64
	Period time.Duration
	Exact  bool
	Meta   string
	// Offered says with a renewal that the holder would hand over to a candidate that
	// stands by: the next one that asks has it asked to, unless the key is paused.
	Offered bool
	// HandOver says that somebody asked the holder to stop and hand over;
	// Reasserted that the last renewal found the key gone and put it back.
	HandOver, Reasserted bool
}

// Result is what the store files about a run when the lease is released.
type Result struct {
	// Ran is false when nothing was started: nothing is filed, the start is
	// taken back from the tick's count and a minimum hold is not kept.
	Ran bool
	// Success is true when the command ended by itself with status 0.
	Success bool
	// Exit is the command's status as a shell shows it, or ExitVoid.
	Exit int
}

// ExitVoid is the Exit of a run whose lease was lost or ran out, however its command
// ended; ExitSignalled is to be added to the signal that ended a command.
const (
	ExitVoid      = 76
	ExitSignalled = 128
)
