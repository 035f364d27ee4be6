package lease

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLost is definite: the store said that the lease is not the caller's.
	ErrLost = errors.New("the lease is not ours any more")
	// ErrRevoked is an ErrLost: an operator took the lease away.
	ErrRevoked = fmt.Errorf("%w: it was revoked", ErrLost)
	// ErrDone means that the candidate's tick needs no run any more. The error is a
	// *DoneError.
	ErrDone = errors.New("the tick needs no run any more")
	// ErrReleased means that this holder id has released its lease. It will never be
	// granted anything again.
	ErrReleased = errors.New("this holder id has released its lease already")
	// ErrNoWakeups means that the store cannot wake a standby now: poll instead.
	ErrNoWakeups = errors.New("the store has no wake-ups")
)

// HeldError is a denial: somebody else has the key.
type HeldError struct {
	// Value is the value of the key, cut to 256 bytes: usually a holder id, but it can
	// be anything if Why is Foreign. Treat it as hostile.
	Value string
	Why   How
	Token int64
	// Remaining is the time until the key expires if nobody renews it. TTL is the
	// holder's.
	Remaining, TTL time.Duration
	// Since is how long the holder has had the key, 0 if unknown.
	Since time.Duration
	// Expires is the end of the lease in the store's milliseconds, 0 if unknown. A change
	// shows that the lease was renewed.
	Expires int64
	// Tick is the store's time of this answer, as in Request.Tick.
	Tick int64
}

// condition returns what the denial says about the key.
func (e *HeldError) condition() Condition {
	return Condition{How: e.Why, Value: e.Value, Token: e.Token, Remaining: e.Remaining, Since: e.Since, TTL: e.TTL, Expires: e.Expires, Tick: e.Tick}
}

func (e *HeldError) Error() string { return e.condition().String() }

// PausedError is a denial: an operator paused the key.
type PausedError struct {
	Pause
	// Remaining is the rest of the pause.
	Remaining time.Duration
	// Tick is the store's time of this answer, as in Request.Tick.
	Tick int64
}

func (e *PausedError) condition() Condition {
	return Condition{How: Paused, Pause: e.Pause, Remaining: e.Remaining, Tick: e.Tick}
}

func (e *PausedError) Error() string { return e.condition().String() }

// DoneError is an ErrDone with what the store knows about the tick.
type DoneError struct {
	// Ago is how long ago the served or given-up tick was.
	Ago time.Duration
	// Host succeeded that recently, without ticks; "" with ticks.
	Host string
	// GivenUp: the tick was not served, but has had Request.Tries starts, or a newer
	// tick was started.
	GivenUp bool
}

func (e *DoneError) condition() Condition {
	c := Condition{How: Served, Host: e.Host, Since: e.Ago}
	if e.GivenUp {
		c.How = GivenUp
	}
	return c
}

func (e *DoneError) Error() string { return e.condition().String() }

func (e *DoneError) Unwrap() error { return ErrDone }

// SettlingError is a denial for a moment: there may be a living holder that the store does
// not know, or whose lease is over only by the store's clock. It gets time to renew, which
// restores its lease.
type SettlingError struct {
	Remaining time.Duration
	Why       SettleReason
	// Tick is the store's time of this answer, as in Request.Tick.
	Tick int64
}

// ClockError is a denial: the request's tick does not fit the store's time. Ask again with
// the tick for Tick, the store's time of this answer in milliseconds.
type ClockError struct{ Tick int64 }

func (e *ClockError) condition() Condition { return Condition{How: ClockDiffers, Tick: e.Tick} }

func (e *ClockError) Error() string { return e.condition().String() }

// SettleReason says why a key settles before it is granted.
type SettleReason string

const (
	SettleFresh    SettleReason = "fresh"    // the store knows neither the key nor its counter
	SettleRollback SettleReason = "rollback" // the counter is behind a token seen earlier
	SettleVanished SettleReason = "vanished" // the key is gone before its recorded end
	SettleExpired  SettleReason = "expired"  // nobody released it
	// SettleRestarted: this is not the server that granted, and it may have lost data.
	SettleRestarted SettleReason = "restarted"
)

func (e *SettlingError) condition() Condition {
	return Condition{How: Settling, Remaining: e.Remaining, Settle: e.Why, Tick: e.Tick}
}

func (e *SettlingError) Error() string { return e.condition().String() }

// StoreError means that there was no usable answer: the operation may or may not have
// happened.
type StoreError struct {
	// Op is the operation: acquire, renew, release, wait, pass, listen; status, list,
	// hand over, revoke, pause, resume, forget; or for an address, "redis store" and
	// the like.
	Op  string
	Err error
	// Refused means that nothing listens at the address: more than a few attempts in a
	// row are pointless.
	Refused bool
	// Permanent means that waiting does not help: rights, password, wrong type.
	Permanent bool
	// Hint says what to do about it: a short imperative sentence without a full stop,
	// or empty.
	Hint string
}

func (e *StoreError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *StoreError) Unwrap() error { return e.Err }
