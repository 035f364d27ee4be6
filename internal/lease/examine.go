package lease

import (
	"context"
	"time"
)

// Examiner is what a store may be beside: one that can tell how its servers are
// set up, as far as that matters to leases. Outage is how long the store may be
// away before a command is stopped.
type Examiner interface {
	Examine(ctx context.Context, outage time.Duration) []Finding
}

// Finding is one thing that was looked at.
type Finding struct {
	Subject string // a word or two
	Verdict Verdict
	// Text says what was found, Cure what to do about it: "" where all is well.
	// Both may hold what a server said.
	Text, Cure string
}

// Verdict is what a finding means.
type Verdict string

const (
	Fine     Verdict = "ok"
	Doubtful Verdict = "warn" // works, and may not do what is expected
	Bad      Verdict = "bad"  // runs fail, or a promise is broken
)
