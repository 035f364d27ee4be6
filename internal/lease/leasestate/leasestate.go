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
	"errors"
	"fmt"
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
	// Period is that of the newest grant with ticks, in ms, and Tries the most starts
	// that it allowed its tick; 0 is any number.
	Period int64 `json:"period_ms,omitempty"`
	Tries  int   `json:"tries,omitempty"`
	// Settling is under way: a holder that may be alive has been called.
	Settling *Settling `json:"settling,omitempty"`
	// Server made the last grant or renewal; "" is unknown.
	Server string `json:"server,omitempty"`
	// Keep is for how many milliseconds after its last change the state must be
	// kept; see Idle.
	Keep int64 `json:"keep_ms,omitempty"`
	// Paused is the last pause, which may be over.
	Paused *lease.Pause `json:"pause,omitempty"`
	// Candidates are noted with each grant, and with other answers once an hour, the
	// newest note first.
	Candidates []lease.Candidate `json:"candidates,omitempty"`
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
	Offered  bool         `json:"offered,omitempty"`   // its holder would release it to a standby
	// Foreign is set where another program has the lease in the place where it keeps
	// its own, and leaderrun's, too. It is read from there and never kept in a state.
	Foreign bool   `json:"-"`
	Meta    string `json:"meta,omitempty"`
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

// errNewer is why a state of a newer form is refused: this program could drop what
// must not be lost.
var errNewer = errors.New("it was written by a newer leaderrun")

// Hint is what to do about an error of Check: otherwise, but for a newer state.
func Hint(err error, otherwise string) string {
	if errors.Is(err, errNewer) {
		return "update leaderrun on this host"
	}
	return otherwise
}

// Check refuses what these rules never leave behind.
func (st *State) Check(key string) error {
	const maxToken = 1 << 53
	g := st.Grant
	switch {
	case st.Version > Version:
		return fmt.Errorf("%w: format version %d, this one writes %d", errNewer, st.Version, Version)
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
