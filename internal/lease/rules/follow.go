package rules

import (
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Shown is the lease of a key where other programs read and write it.
type Shown struct {
	// Value names the holder, as Label does; "" if nobody has the lease there.
	Value string
	// Expires is when that lease ends, in ms of the boot, 0 if it never does. Acquired and
	// TTL are another program's, 0 if unknown. Renewed is a number that a renewal changes.
	Expires, Acquired, TTL, Renewed int64
}

// How a Label marks grants that their holder has ended, or was told to end.
const (
	cooldownMark = "cooldown:"
	revokedMark  = "revoked:"
)

// Label returns the name under which other programs see the newest grant, "" without one: the
// holder's id, with a mark if the holder does not lead any more.
func (st *State) Label() string {
	g := st.Grant
	switch {
	case g == nil:
		return ""
	case g.Cooldown:
		return cooldownMark + string(g.Holder)
	case g.Revoked:
		return revokedMark + string(g.Holder)
	}
	return string(g.Holder)
}

// endless is the TTL of another program's lease without an end.
const endless = 365 * 24 * time.Hour

// isLabel reports whether leaderrun may have written a label.
func isLabel(value string) bool {
	for _, mark := range []string{cooldownMark, revokedMark} {
		if holder, marked := strings.CutPrefix(value, mark); marked {
			value = holder
		}
	}
	return lease.Holder(value).Valid()
}

// Overtake changes the state if another program has written another holder: that holder has
// the lease, and nobody whom leaderrun granted it to has it any more. The state must not have
// been changed since it was read, and each read of the same gives the same.
func (st *State) Overtake(by Shown, now Instant) {
	if st.Grant != nil {
		st.Revoke(true, Instant{})
	}
	if by.Value == "" {
		return
	}
	g := &Grant{Holder: lease.Holder(by.Value), TTL: by.TTL, Boot: now.Boot, Acquired: by.Acquired, AcquiredWall: by.Acquired, Expires: by.Expires, Foreign: true}
	if g.Expires == 0 {
		g.TTL = endless.Milliseconds()
		g.Expires = now.Up + g.TTL
	}
	if g.Acquired == 0 {
		g.Acquired = now.Up
	}
	g.MinHoldUntil = g.Acquired
	st.Grant, st.Renewed = g, -1
	if by.Renewed != 0 {
		st.Renewed = -by.Renewed // never equal to one of leaderrun
	}
}

// Follow takes over what a store shows of the lease, in a place where the lease ends by itself
// and any program may write. A lease in leaderrun's form that the state does not know, since the
// store lost the state, is another program's until its holder renews it.
func (st *State) Follow(is Shown, now Instant) {
	const early = 20 // ms: an ordinary expiry may come that much before the recorded one
	g := st.Grant
	switch {
	case g == nil && is.Value == "":
	case g != nil && is.Value == st.Label():
		if is.Expires > 0 {
			g.Expires = is.Expires
		}
	case g != nil && is.Value == "" && g.isLease():
		if g.Vanished = g.Expires-now.Up > early; !g.Vanished {
			g.Expires = min(g.Expires, now.Up)
		}
	case is.Value == "": // a hold is kept without it
	default:
		st.Overtake(is, now)
		// Leaderrun's own leases all have an expiry: whoever wrote this one may be dead.
		st.Grant.Vanished = is.Expires == 0 && isLabel(is.Value)
	}
}

// Kept returns the state without what other programs have written.
func (st State) Kept() State {
	if st.Grant != nil && st.Grant.Foreign {
		st.Grant, st.Renewed = nil, 0
	}
	return st
}
