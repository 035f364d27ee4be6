package lease

import (
	"errors"
	"fmt"
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

type (
	// HeldError means that somebody has the key.
	HeldError struct{ Condition }
	// PausedError means that an operator paused the key.
	PausedError struct{ Condition }
	// DoneError is an ErrDone: the tick was served, or is given up.
	DoneError struct{ Condition }
	// SettlingError is a denial for a moment: there may be a living holder that the store
	// does not know, or whose lease is over only by the store's clock. It gets time to renew,
	// which restores its lease.
	SettlingError struct{ Condition }
	// ClockError means that the request's tick does not fit the store's time: ask again with
	// the tick for that.
	ClockError struct{ Condition }
)

func (e *DoneError) Unwrap() error { return ErrDone }

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
