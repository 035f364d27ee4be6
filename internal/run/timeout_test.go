package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// slow is a store that answers slowly.
type slow struct {
	lease.Admin
	takes time.Duration
}

func (s slow) wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slow) Inspect(ctx context.Context, _ string) (lease.Status, error) {
	return lease.Status{}, s.wait(ctx)
}
func (s slow) Keys(ctx context.Context) ([]string, error) { return nil, s.wait(ctx) }
func (s slow) HandOver(ctx context.Context, _ string) (lease.Status, error) {
	return lease.Status{}, s.wait(ctx)
}
func (s slow) Revoke(ctx context.Context, _ string, _ bool) (lease.Status, error) {
	return lease.Status{}, s.wait(ctx)
}
func (s slow) Pause(ctx context.Context, _ string, _ time.Duration, _, _ string) (lease.Status, error) {
	return lease.Status{}, s.wait(ctx)
}
func (s slow) Forget(ctx context.Context, _ string, _ bool) (lease.Status, error) {
	return lease.Status{}, s.wait(ctx)
}
func (s slow) Resume(ctx context.Context, _ string) (lease.Status, error) {
	return lease.Status{}, s.wait(ctx)
}

// A list of many keys may take longer than the limit of one call.
func TestEveryCallIsBounded(t *testing.T) {
	calls := map[string]func(context.Context, lease.Admin) error{
		"inspect":   func(ctx context.Context, s lease.Admin) error { _, err := s.Inspect(ctx, "k"); return err },
		"keys":      func(ctx context.Context, s lease.Admin) error { _, err := s.Keys(ctx); return err },
		"hand over": func(ctx context.Context, s lease.Admin) error { _, err := s.HandOver(ctx, "k"); return err },
		"pause":     func(ctx context.Context, s lease.Admin) error { _, err := s.Pause(ctx, "k", 1, "", ""); return err },
		"forget":    func(ctx context.Context, s lease.Admin) error { _, err := s.Forget(ctx, "k", true); return err },
		"resume":    func(ctx context.Context, s lease.Admin) error { _, err := s.Resume(ctx, "k"); return err },
		"revoke":    func(ctx context.Context, s lease.Admin) error { _, err := s.Revoke(ctx, "k", false); return err },
	}
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			for range 3 {
				if err := call(t.Context(), WithTimeout(slow{takes: StoreTimeout - time.Millisecond})); err != nil {
					t.Errorf("%s of a slow store: %v", name, err)
				}
			}
			began := time.Now()
			err := call(t.Context(), WithTimeout(slow{takes: time.Hour}))
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != StoreTimeout {
				t.Errorf("%s of a store that hangs: %v after %s", name, err, took)
			}
		})
	}
}
