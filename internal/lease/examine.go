package lease

import (
	"context"
	"time"
)

// Examiner is an optional interface of a store that can check how its servers are set up,
// as far as that matters to leases. outage is how long the store may be away before a
// command is stopped; margin is how much clocks may differ.
type Examiner interface {
	Examine(ctx context.Context, outage, margin time.Duration) []Finding
}

// Finding is the result of one check.
type Finding struct {
	Verdict Verdict
	Subject string // a word or two
	// Text says what was found. Hint says what to do about it, "" if all is well. Both
	// may contain text from a server.
	Text, Hint string
}

// Verdict rates a finding.
type Verdict string

const (
	Fine     Verdict = "ok"
	Doubtful Verdict = "warn" // works, but may not do what is expected
	Bad      Verdict = "bad"  // runs fail, or a promise is broken
)
