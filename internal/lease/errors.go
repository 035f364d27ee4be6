package lease

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLost is definite: the store says that the lease is not the caller's.
	ErrLost = errors.New("the lease is not ours any more")
	// ErrRevoked is an ErrLost: an operator took the lease away.
	ErrRevoked = fmt.Errorf("%w: it was revoked", ErrLost)
	// ErrDone says that the candidate's tick needs no run any more; the error is a
	// *DoneError.
	ErrDone = errors.New("the tick needs no run any more")
	// ErrReleased says that this holder id has released already; it will never
	// be granted anything again.
	ErrReleased = errors.New("this holder id has released its lease already")
	// ErrNoWakeups says that the store cannot wake a standby now: poll instead.
	ErrNoWakeups = errors.New("the store has no wake-ups")
)

// HeldError denies an acquire: somebody else has the key.
type HeldError struct {
	// Value is what stands at the key, cut to 256 bytes: a holder id in the
	// usual case, anything at all when Why is HeldForeign. Treat it as hostile.
	Value string
	Why   HeldReason
	Token int64
	// Remaining is the time until the key expires if nobody renews it, TTL the
	// holder's own.
	Remaining, TTL time.Duration
	// Since is how long the holder has had the key, 0 when nobody knows.
	Since time.Duration
	// Expires is when the lease runs out as the store has it, in its milliseconds, 0
	// where it does not know: it says whether the lease has been renewed since.
	Expires int64
	// Tick is the store's time of this answer, as in Request.Tick.
	Tick int64
}

// HeldReason says in which way a key is taken.
type HeldReason string

const (
	HeldLeader   HeldReason = "held"     // a leader runs
	HeldCooldown HeldReason = "cooldown" // the run is over, its minimum hold is not
	HeldRevoked  HeldReason = "revoked"  // taken from its holder by an operator, still to stop
	HeldForeign  HeldReason = "foreign"  // not written by leaderrun
)

func (e *HeldError) Error() string {
	return fmt.Sprintf("held by %q (%s) for at most %s", e.Value, e.Why, e.Remaining)
}

// PausedError denies an acquire: an operator wants nobody to be granted the key.
type PausedError struct {
	Pause
	// Remaining is what is left of it.
	Remaining time.Duration
	// Tick is the store's time of this answer, as in Request.Tick.
	Tick int64
}

func (e *PausedError) Error() string {
	text := fmt.Sprintf("paused by %s for another %s", e.By, e.Remaining.Round(time.Second))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// DoneError is an ErrDone with what the store knows about the tick.
type DoneError struct {
	// Ago is how long ago the tick was that has been served or given up.
	Ago time.Duration
	// GivenUp: after as many starts as Request.Tries allows, or for a newer tick
	// that has been started.
	GivenUp bool
}

func (e *DoneError) Error() string {
	ago := e.Ago.Round(time.Second)
	if e.GivenUp {
		return fmt.Sprintf("the tick of %s ago has had its last try", ago)
	}
	return fmt.Sprintf("the tick of %s ago has been served", ago)
}

func (e *DoneError) Unwrap() error { return ErrDone }

// SettlingError denies an acquire for a moment: there may be a holder that the
// store does not know of, or whose lease is over by the store's clock alone. If it
// is alive it gets time to renew, which puts its lease back.
type SettlingError struct {
	Remaining time.Duration
	Why       SettleReason
	// Tick is the store's time of this answer, as in Request.Tick.
	Tick int64
}

// ClockError denies an acquire: the tick was chosen for another time than the store's.
// Ask again with the one for Tick, the store's time of this answer in milliseconds.
type ClockError struct{ Tick int64 }

func (e *ClockError) Error() string {
	return "the tick is that of another time than the store's, which is " + time.UnixMilli(e.Tick).UTC().Format(time.RFC3339)
}

// SettleReason says why a key settles before it is granted.
type SettleReason string

const (
	SettleFresh    SettleReason = "fresh"    // the store knows neither the key nor its counter
	SettleRollback SettleReason = "rollback" // the counter is behind a token seen earlier
	SettleVanished SettleReason = "vanished" // the key is gone before its recorded end
	SettleExpired  SettleReason = "expired"  // nobody released it
	// SettleRestarted: the server is another one than the one that granted, and may
	// know less.
	SettleRestarted SettleReason = "restarted"
)

func (e *SettlingError) Error() string {
	return fmt.Sprintf("the key settles for %s (%s)", e.Remaining, e.Why)
}

// StoreError is an answer that was none: the operation may or may not have
// happened.
type StoreError struct {
	// Op is what was asked: acquire, renew, release, wait, pass, listen; status,
	// list, hand over, revoke, pause, resume, forget;
	// or "redis store" and the like, of an address.
	Op  string
	Err error
	// Refused says that nothing listens at the address: asking more than a few
	// times in a row is pointless.
	Refused bool
	// Permanent says that waiting does not help: rights, password, wrong type.
	Permanent bool
	// Hint is what a person can do about it, a short imperative sentence
	// without a full stop; empty when the error says all.
	Hint string
}

func (e *StoreError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *StoreError) Unwrap() error { return e.Err }
