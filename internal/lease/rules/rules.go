// Package rules has the contract of package lease as rules on the state of a key. It is the
// only place that knows when a key may be granted; package keep applies it to every store.
//
// It guarantees that no key is granted twice at a time, on the store's time as given by the
// caller. It uses no file, network or clock. It does not handle concurrent changes of one
// state: the store must prevent them.
package rules

import (
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// State is everything that a store knows about one key; see New. Its methods may change it
// even if they return an error: the state must be kept all the same.
type State struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	// Changed, Renewed and Called are the times, in ms of wall time, of the last change, of the
	// last grant or renewal, and of the last call of the holder. No two Renewed, and no two
	// Called, are equal (see nextStamp), so they may be some ms ahead.
	Changed int64 `json:"changed"`
	Renewed int64 `json:"renewed"`
	Called  int64 `json:"called"`
	// ChangeID is the id of the last change by an operator.
	ChangeID string `json:"change_id,omitempty"`
	Token    int64  `json:"token"` // the largest ever granted
	// Grant is the newest grant, until it is released and its minimum hold is over. It may
	// have expired.
	Grant *Grant `json:"grant,omitempty"`
	// Released holders, newest first, are never granted again: a duplicate of their
	// request may still arrive.
	Released []lease.Holder `json:"released,omitempty"`
	// ServedTick is the tick of the last success. SeriesTick is the first of the ticks whose
	// starts are counted together.
	ServedTick int64 `json:"served_tick,omitempty"`
	SeriesTick int64 `json:"series_tick,omitempty"`
	Starts     int   `json:"starts,omitempty"`
	// Success is the last success of a run that was recent for others, see Request.Recent.
	Success *Success `json:"success,omitempty"`
	// Period is the period of the newest grant with ticks, in ms, and Tries its limit of
	// starts per tick; 0 means no limit.
	Period int64 `json:"period_ms,omitempty"`
	Tries  int   `json:"tries,omitempty"`
	// Settling is the current settling: a holder that may be alive has been called.
	Settling *Settling `json:"settle,omitempty"`
	// Server made the last grant or renewal; "" if unknown.
	Server string `json:"server,omitempty"`
	// Keep is how many milliseconds the state must be kept after its last change; see
	// Idle.
	Keep int64 `json:"keep_ms,omitempty"`
	// Paused is the last pause. It may be over.
	Paused *lease.Pause `json:"pause,omitempty"`
	// Candidates are recorded with each grant, and with denials once an hour, the newest
	// record first.
	Candidates []lease.Candidate `json:"candidates,omitempty"`
	// Runs are sorted by token, newest first.
	Runs []lease.Run `json:"runs,omitempty"`
}

// Grant is a lease in the store's form.
type Grant struct {
	Holder       lease.Holder `json:"holder"`
	TTL          int64        `json:"ttl_ms"`
	Boot         string       `json:"boot"`
	Acquired     int64        `json:"acquired"` // this and the next two: ms of that boot
	MinHoldUntil int64        `json:"min_hold_until"`
	Expires      int64        `json:"expires"`             // never before MinHoldUntil
	AcquiredWall int64        `json:"acquired_wall"`       // the same as Acquired, in wall time, ms
	Asked        int64        `json:"asked,omitempty"`     // when its holder asked for it or renewed it, by the wall clock of that host, ms
	Tick         int64        `json:"tick"`                // wall time, ms
	Recent       int64        `json:"recent_ms,omitempty"` // see Request.Recent: the tick is none of a schedule
	Cooldown     bool         `json:"cooldown"`            // released, its minimum hold goes on
	Revoked      bool         `json:"revoked,omitempty"`   // taken from its holder, which has yet to release it
	HandOver     bool         `json:"hand_over,omitempty"` // its holder is asked to release it
	Offered      bool         `json:"offered,omitempty"`   // its holder would release it to a standby
	Meta         string       `json:"meta,omitempty"`
	// Foreign: another program has the lease, in a place that leaderrun uses, too. Vanished:
	// the lease is gone from such a place before its end, or never was a proper one. Both are
	// read from there (see follow.go) and never kept in a state.
	Foreign  bool `json:"-"`
	Vanished bool `json:"-"`
}

// Success is a run that succeeded.
type Success struct {
	Host string `json:"host"`
	Tick int64  `json:"tick"` // the store's time of its candidate's first answer, in ms
}

// Settling is a time in which nobody is granted the key. A candidate counts it on its own
// clock, from the answer that showed it: the holder hears the call no later than that,
// whatever the store's clock does.
type Settling struct {
	Boot  string `json:"boot"`
	Since int64  `json:"since"` // ms of that boot
	Due   int64  `json:"due"`   // ms of that boot: it ends
	// Server is where it began: on another server it does not count.
	Server string `json:"server,omitempty"`
}

// Instant is the store's current time, in milliseconds. Leases run on Up, which begins
// anew with each Boot; ticks, tokens and the history use Wall.
type Instant struct {
	Boot string
	Up   int64
	Wall int64
	// Settle is how long a key settles if a holder that this store does not know may be
	// alive: 0 if its clock cannot be set and it loses no data. Uncalled: no holder can be
	// called, so it settles until the next renewal must have come (see settling).
	Settle   int64
	Uncalled bool
	// Server names the store's server, "" if there is none or it is unknown. Another
	// server may have lost acknowledged writes. Serving is how long this one has lost
	// none.
	Server  string
	Serving int64
	// Here is the wall clock of the caller's host, in ms. A holder's is kept as Asked of its grant,
	// and doubt compares a candidate's with that.
	Here int64
	// Apart is the largest difference between the servers' clocks, 0 if there is one clock. A
	// lease that was not released counts until Expires+Apart, or until the caller has watched
	// it unrenewed for its TTL. Unrenewed and Settled are how long the caller has seen the
	// newest grant unchanged, and the key settle, on its own clock; 0 if not at all.
	Apart, Unrenewed, Settled int64
}

// Version is the version of the format of a State.
const Version = 1

// nextStamp returns the next Renewed or Called. It differs from the last one, and from all
// that the store had before it came back with older data.
func nextStamp(last int64, now Instant) int64 { return max(last+1, now.Wall) }

// call calls the holder: stores ring its bell when they keep a state with another Called.
func (st *State) call(now Instant) { st.Called = nextStamp(st.Called, now) }

// New returns the state of a key that nobody has asked for yet.
func New(key string) State {
	return State{Version: Version, Key: key, Keep: MinKeep.Milliseconds()}
}

var (
	// errNewer refuses a state of a newer version: this program could lose parts of it.
	errNewer = errors.New("it was written by a newer leaderrun")
	// errOther refuses the state of another key: a store may ignore case in names.
	errOther = errors.New("it belongs to key")
)

// Hint returns the hint for an error of Check: otherwise, unless the state is newer.
func Hint(err error, otherwise string) string {
	if errors.Is(err, errNewer) {
		return "update leaderrun on this host"
	}
	if errors.Is(err, errOther) {
		return "if the store takes the names of both keys for one, change one of them; else " + otherwise
	}
	return otherwise
}

// Check refuses states that these rules never produce.
func (st *State) Check(key string) error {
	const maxToken = 1 << 53
	g := st.Grant
	switch {
	case st.Version > Version:
		return fmt.Errorf("%w: format version %d, this one writes %d", errNewer, st.Version, Version)
	case st.Version != Version:
		return fmt.Errorf("format version %d, this leaderrun writes %d", st.Version, Version)
	case st.Key != key:
		return fmt.Errorf("%w %q", errOther, st.Key)
	case st.Token < 0 || st.Token > maxToken:
		return fmt.Errorf("token %d is out of range", st.Token)
	case st.Keep < 0 || st.Keep > maxToken:
		return fmt.Errorf("it is to be kept for %d ms", st.Keep)
	case st.Period < 0 || st.Period > maxToken:
		return fmt.Errorf("a period of %d ms", st.Period)
	case st.Starts < 0:
		return fmt.Errorf("%d starts", st.Starts)
	case st.Tries < 0:
		return fmt.Errorf("%d tries", st.Tries)
	case st.Paused != nil && st.Paused.Left(st.Paused.Since) == 0:
		return errors.New("its pause is not a possible one")
	case g != nil && (!g.Holder.Valid() || g.Boot == "" || g.TTL <= 0 || st.Token == 0):
		return errors.New("its grant is not a possible one")
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
