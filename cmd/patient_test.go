package cmd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// slow is a store that takes its time.
type slow struct {
	shelf
	takes time.Duration
}

func (s *slow) Inspect(ctx context.Context, key string) (lease.Status, error) {
	select {
	case <-time.After(s.takes):
		return s.shelf.Inspect(ctx, key)
	case <-ctx.Done():
		return lease.Status{}, ctx.Err()
	}
}

func TestEveryQuestionHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"a", "b", "c"}
		if all, _, err := inspectAll(t.Context(), patient{&slow{takes: patience - time.Millisecond}}, keys); err != nil || len(all) != len(keys) {
			t.Errorf("a slow store: %+v, %v", all, err)
		}
		began := time.Now()
		_, _, err := inspectAll(t.Context(), patient{&slow{takes: time.Hour}}, keys)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != patience {
			t.Errorf("a store that hangs: %v after %s", err, took)
		}
	})
}
