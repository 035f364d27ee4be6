package lease

import (
	"context"
	"time"
)

// Examiner is what a store may be beside: one that can say how its servers are
// set up, as far as that matters to leases. Outage is how long the store may be
// away before a command is stopped, margin by how much clocks may differ.
type Examiner interface {
	Examine(ctx context.Context, outage, margin time.Duration) []Finding
}

// Finding is one thing that was looked at, also as JSON. Fields are only ever added.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Subject string  `json:"subject"` // a word or two
	// Text says what was found, Hint what to do about it: "" where all is well.
	// Both may hold what a server said.
	Text string `json:"text"`
	Hint string `json:"hint"`
}

// Verdict is what a finding means.
type Verdict string

const (
	Fine     Verdict = "ok"
	Doubtful Verdict = "warn" // works, and may not do what is expected
	Bad      Verdict = "bad"  // runs fail, or a promise is broken
)
