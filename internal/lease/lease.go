// Package lease defines leaderrun's basic types, and the contract that every store must
// keep. It imports only the standard library, and any package may import it.
//
// The contract of a [Store]:
//
//   - At any instant, by the store's own clock, at most one holder has an
//     unexpired lease on a key.
//   - Acquire is idempotent for one holder: asking again while the lease lives
//     (a lost reply, a retry) gives the same token and tick. After that holder has
//     released, Acquire never grants to it again: every candidacy has a new holder id.
//   - Each grant's token is larger than every token granted before on that key, for ever,
//     even after expiry, deletion or a flush of the store.
//   - Renew and Release compare holder and token atomically in the store. They never renew
//     or release another holder's lease.
//   - [ErrLost] is definite. Every error that is not one of the sentinels or types below
//     means "unknown: it may have happened".
//   - Every call returns soon after its context ends.
//   - The TTL runs on the store's clock, which is never compared with another clock. If the
//     servers of a store have no common clock, a candidate measures on its own clock how
//     long a lease was not renewed.
//   - The store's clock may be set at any time. A renewal restores an expired lease unless
//     it was released or another grant followed. If the last holder of a key has not
//     released it, the holder is called and has 300 ms to renew before the key is granted:
//     the key settles. (A directory uses the clock of the holder's own kernel, so its keys
//     do not settle.) A denial shortly before the end of a lease calls the holder, too, so
//     that a dead holder is followed as soon as its lease is over.
//   - A store may come back with older data. A lease in that data with a smaller token, that
//     has not been renewed since, gives way to a renewal of a newer lease.
//   - A tick that was served by a success needs no run any more. Ticks are compared with
//     each other and with the store's time, never with another clock. A candidate that has
//     chosen its tick by its own clock says for which times of the store the tick is right.
//     If it is not right now, the only answer is the store's time.
//   - A host that asks with ticks is recorded, with the time to the hour, whatever the
//     answer. Recording it neither makes the request fail nor delays it for long.
//   - A paused key is granted to nobody. Its holder keeps the lease, and may renew it,
//     restore it and ask again.
//
// Not guaranteed: a store that loses acknowledged writes (an asynchronous failover, a wiped
// disk) can grant twice. The token protects against that if it is claimed at the sink
// before the first write.
package lease

import (
	"context"
	"time"
)

// Store keeps leases. Its methods may be called from several goroutines. It has no state
// about candidacies: that is in Request and Lease.
type Store interface {
	// Acquire tries once to get the lease. Errors: *HeldError, *PausedError,
	// *SettlingError, *ClockError, ErrDone, ErrReleased, *StoreError. With ErrDone it
	// has passed the wake-up on, since a candidate that is done never asks again.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Renew extends the lease to a TTL from now, or restores it, and returns it with the
	// store's answer. Errors: ErrLost, *StoreError.
	Renew(ctx context.Context, l Lease) (Lease, error)

	// Release ends the lease if it is still the caller's, records the run, once however
	// often it is called, and wakes one standby. Repeating it is no error. Call it also
	// after a loss: it frees a revoked key. Errors: ErrLost (another holder has the key
	// and keeps it), *StoreError.
	Release(ctx context.Context, l Lease, r Result) error

	// Wait blocks until the key may have become free, or until atMost has passed. It is
	// a hint: it may return early or late. Errors: ErrNoWakeups, at once, if this store
	// has no wake-ups; *StoreError.
	Wait(ctx context.Context, key string, atMost time.Duration) error

	// Pass passes on a wake-up that this candidate may have received and will not use. If
	// it gets lost, the others wait until the lease expires at most.
	Pass(ctx context.Context, key string) error

	// Listen blocks until the store calls the holder of key, which then renews at once. So a
	// store that has lost its data learns of the holder before it grants the key to somebody
	// else. Requests to hand over arrive in the same way. An earlier call may be kept for some
	// seconds or get lost: the next renewal gives the same information. Errors: ErrNoWakeups if
	// this store cannot call; *StoreError if the connection was lost, perhaps because the store
	// is away.
	Listen(ctx context.Context, key string) error

	// Close closes connections. It does not release leases.
	Close() error
}

// Request is one attempt of one candidacy. All durations are in whole milliseconds.
type Request struct {
	Key    string
	Holder Holder
	TTL    time.Duration
	// MinHold keeps the key taken for at least this long after the grant, even if the
	// holder releases earlier or dies.
	MinHold time.Duration
	// Tick is the tick of the candidacy in the store's milliseconds. 0 means the store's
	// current time, if the candidacy has ticks. The tick is right from TickFrom until
	// before TickUntil on the store's clock; at other times the answer is *ClockError.
	// If both are 0 it is always right.
	Tick, TickFrom, TickUntil int64
	// Period is the period of ticks, or the time from this tick to the next; 0 if
	// unknown. Exact and Period define when two ticks are the same: see [Round]. Tries is
	// the maximum number of starts per tick (0: no limit).
	Period time.Duration
	Exact  bool
	Tries  int
	// Recent is for how long a success of another host makes this run superfluous, without
	// ticks: the first answers of both candidates are no further apart. 0: it never does. Tick
	// is the store's time of this candidate's first answer, then.
	Recent time.Duration
	// Waits: the candidate stands by if it is denied.
	Waits bool
	// Seen is the lease with the largest token that this candidate has seen.
	Seen Seen
	// Meta is stored with the grant for people to read: JSON, at most 4096 bytes.
	Meta string
}

// Round returns how many milliseconds apart two ticks must be to be different. The ticks of
// a period come from hosts that see one tick at times that differ by less than half a
// period. Exact ticks are named, or come from a schedule. 0 means that the store neither
// reads nor writes ticks.
func Round(period time.Duration, exact bool) int64 {
	if exact {
		return 1
	}
	return (period.Milliseconds() + 1) / 2
}

// Reach returns how many milliseconds a recorded tick may be ahead of the store's time. A
// tick further ahead comes from a clock that was wrong, and is ignored. An exact tick may
// come from a host's clock.
func Reach(period time.Duration, exact bool) int64 {
	const day = 86_400_000
	if exact {
		return max(period.Milliseconds(), day)
	}
	return period.Milliseconds()
}

// Tick is the tick of a schedule for some time: At is the tick of all times from From
// until before Until, and Period is the time to the next tick. At, From and Until are
// milliseconds since 1970. From and Until may both be 0, which means always.
type Tick struct {
	At, From, Until int64
	Period          time.Duration
}

// Seen is a lease as a candidate knows it, another holder's or an earlier one of its own;
// zero means none. A store that shows a smaller token has lost data, and then the candidate
// waits for the TTL before it is granted anything. The wait may also be longer by the
// candidate's clock than by the store's, which may have been set.
type Seen struct {
	Token int64
	TTL   time.Duration
	// Expires is as in HeldError. Left is the time until then on the candidate's clock,
	// counted from the answer that had it.
	Expires int64
	Left    time.Duration
}

// Lease is a grant as its holder knows it. It has everything that a store needs to restore
// the key after a loss of data. Times are the store's, in milliseconds since its epoch.
type Lease struct {
	Key    string
	Holder Holder
	Token  int64
	TTL    time.Duration
	// AcquiredAt is when the lease was granted, and MinHoldUntil when the minimum hold
	// ends.
	AcquiredAt, MinHoldUntil int64
	// Tick, Period, Exact and Recent are as in Request; Tick is 0 without ticks and Recent.
	Tick   int64
	Period time.Duration
	Exact  bool
	Recent time.Duration
	Meta   string
	// Offered: with this renewal the holder offers to hand over to a standby. The next
	// attempt of a standby then requests the hand-over, unless the key is paused.
	Offered bool
	// HandOver: somebody asked the holder to stop and hand over. Reasserted: the last
	// renewal found the key missing and restored it.
	HandOver, Reasserted bool
}

// Result is what the store records about a run at the release.
type Result struct {
	// Ran is false if nothing was started: then no run is recorded, the start does not
	// count for the tick, and there is no minimum hold.
	Ran bool
	// Success: the command ended by itself with status 0.
	Success bool
	// Exit is the command's status as a shell would show it, or ExitVoid.
	Exit int
	// Outcome is why the run ended, in one word: OutcomeKilled, or one of package candidate.
	Outcome string
}

// OutcomeKilled: leaderrun itself was killed, and then the tree.
const OutcomeKilled = "killed"

// ExitVoid is the Exit of a run whose lease was lost or expired, however its command ended.
// ExitSignalled is added to the number of the signal that ended a command.
const (
	ExitVoid      = 76
	ExitSignalled = 128
)
