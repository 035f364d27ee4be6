package networktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Renews renews for d, like a holder with the default TTL of 30 s. The test fails if there is
// no answer for so long that a run would have to end.
func Renews(t *testing.T, s lease.Store, l lease.Lease, d time.Duration) {
	t.Helper()
	// One call may take TTL/15, and a holder goes on without an answer for TTL - margin -
	// kill margin - grace - interval.
	const attempt, before = 2 * time.Second, 10 * time.Second
	answered := time.Now()
	for end := time.Now().Add(d); time.Now().Before(end) || time.Since(answered) > attempt; time.Sleep(250 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), attempt)
		_, err := s.Renew(ctx, l)
		cancel()
		switch {
		case err == nil:
			answered = time.Now()
		case errors.Is(err, lease.ErrLost):
			t.Fatalf("the lease is lost: %v", err)
		case time.Since(answered) > before:
			t.Fatalf("no answer for %s: %v", time.Since(answered), err)
		}
	}
}
