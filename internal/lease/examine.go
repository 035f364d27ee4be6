package lease

import (
	"context"
	"errors"
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

// Passed returns a finding that all is well.
func Passed(subject, text string) Finding { return Finding{Fine, subject, text, ""} }

// Warned returns a finding that something may not do what is expected.
func Warned(subject, text, hint string) Finding { return Finding{Doubtful, subject, text, hint} }

// Failed returns a finding that runs fail, or a promise is broken.
func Failed(subject, text, hint string) Finding { return Finding{Bad, subject, text, hint} }

// Broken returns a finding about something that does not work, with the hint of a store's error.
func Broken(subject string, err error) Finding {
	f := Failed(subject, err.Error(), "")
	if failure, ok := errors.AsType[*StoreError](err); ok {
		f.Hint = failure.Hint
	}
	return f
}

// Verdict rates a finding.
type Verdict string

const (
	Fine     Verdict = "ok"
	Doubtful Verdict = "warn" // works, but may not do what is expected
	Bad      Verdict = "bad"  // runs fail, or a promise is broken
)
