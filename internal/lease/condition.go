package lease

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How says how a key is, in one word for programs.
type How string

const (
	Held     How = "held"     // a leader runs
	Cooldown How = "cooldown" // the run ended, but its minimum hold has not
	Revoked  How = "revoked"  // taken by an operator from a holder that has yet to stop
	Foreign  How = "foreign"  // not written by leaderrun
	Paused   How = "paused"   // nobody is granted it, an operator wants that
	Settling How = "settling" // a holder that the store does not know may be alive, and is called
	Free     How = "free"
	Vanished How = "vanished" // free, but its last holder has not released it
	// Served and GivenUp: it may be free, but the candidate's tick needs no run.
	Served  How = "served"
	GivenUp How = "given up"
	// ClockDiffers: it may be free, but the candidate's tick does not fit the store's time.
	ClockDiffers How = "clock differs"
	Unreadable   How = "unreadable" // nobody knows
)

// Taken reports whether somebody has the key.
func (h How) Taken() bool { return h == Held || h == Cooldown || h == Revoked || h == Foreign }

// Condition is how a key is, as a store tells a candidate that it denies the key, or an
// operator. What is unknown is zero.
type Condition struct {
	Why How
	// Value is the value of a key that is taken, cut to 256 bytes: usually a holder id, but
	// it can be anything if it is foreign. Treat it as hostile.
	Value string
	// Host is the host that leads, had the lease, or has succeeded.
	Host  string
	Token int64
	// Remaining is the time until the condition ends by itself, if nobody renews the lease.
	// Since is how long the holder has had the key, or how long ago the tick was that is
	// served or given up: it has had Request.Tries starts, or a newer tick was started.
	Remaining, Since time.Duration
	// TTL is the holder's. Expires is the end of its lease in the store's milliseconds. A
	// change shows that the lease was renewed. Tick is the store's time of this answer, as in
	// Request.Tick.
	TTL           time.Duration
	Expires, Tick int64
	// HandOver: the holder was asked to hand over.
	HandOver bool
	// Pause is the operator's pause, also while the key is taken.
	Pause  Pause
	Settle SettleReason
}

// ConditionOf returns what an error of Acquire says about the key. ok is false if it is no
// denial.
func ConditionOf(err error) (c Condition, ok bool) {
	var denial interface{ self() Condition }
	if !errors.As(err, &denial) {
		return Condition{}, false
	}
	return denial.self(), true
}

func (c Condition) self() Condition { return c }

// Error makes the types that embed a condition errors.
func (c Condition) Error() string { return c.String() }

// Holder returns the holder in the value, "" if it has none. Some stores write a kind and a
// colon before it.
func (c Condition) Holder() Holder {
	if h := Holder(c.Value[strings.LastIndexByte(c.Value, ':')+1:]); h.Valid() {
		return h
	}
	return ""
}

// After returns the condition when some more time has passed, to the second.
func (c Condition) After(d time.Duration) Condition {
	c.Remaining = max(c.Remaining-d, 0).Round(time.Second)
	if c.Since > 0 {
		c.Since = (c.Since + d).Round(time.Second)
	}
	return c
}

// Lasting returns the condition without what changes while it lasts.
func (c Condition) Lasting() Condition {
	c.Remaining, c.Since = 0, 0
	return c
}

// String is the one wording of a condition, as a clause.
func (c Condition) String() string { return c.text(time.Now()) } //nolint:forbidigo // only to tell the time of day

func (c Condition) text(now time.Time) string {
	host := cmp.Or(c.Host, c.Holder().Host())
	at := ShortInstant(now.Add(-c.Since).UnixMilli(), now.UnixMilli())
	switch c.Why {
	case Held:
		text := " leads"
		if c.Since > 0 {
			text = " has led for " + Span(c.Since)
		}
		if c.HandOver {
			text += " and was asked to hand over"
		}
		return cmp.Or(host, strconv.Quote(c.Value)) + text
	case Cooldown:
		return "the minimum hold of the last run goes on" + c.within(" for another %s")
	case Revoked:
		may := cmp.Or(c.within("has %s to stop"), "may still be stopping")
		return fmt.Sprintf("the lease was taken from %s, which %s its command", cmp.Or(host, "its holder"), may)
	case Foreign:
		return fmt.Sprintf("the key holds %q, which leaderrun did not write", c.Value)
	case Paused:
		text := "paused until " + Instant(c.Pause.Until) + c.within(" (%s left)") + " by " + c.Pause.By
		return strings.TrimSuffix(text+": "+c.Pause.Reason, ": ")
	case Settling:
		return "the key settles" + c.within(" for %s") + fmt.Sprintf(" (%s)", c.Settle)
	case Vanished:
		return "nobody leads, the last leader did not report its end"
	case Served:
		if c.Host != "" {
			return fmt.Sprintf("the run of %s succeeded on %s", at, c.Host)
		}
		return "the tick of " + at + " has been served"
	case GivenUp:
		return "the tick of " + at + " has had its last try"
	case ClockDiffers:
		return "the tick is that of another time than the store's, which is " + time.UnixMilli(c.Tick).UTC().Format(time.RFC3339)
	case Unreadable:
		return "what the store holds for this key was not written by leaderrun, or by a newer one"
	}
	if c.Token == 0 {
		return "nobody has ever led"
	}
	return "nobody leads"
}

// within formats the remaining time; "" if it is unknown.
func (c Condition) within(format string) string {
	if c.Remaining <= 0 {
		return ""
	}
	return fmt.Sprintf(format, Span(c.Remaining))
}
