package run

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// StoreTimeout bounds one call to a store. A run with the default TTL of 30 s tries for as long
// before it gives up: TTL/6.
const StoreTimeout = 5 * time.Second

// WithTimeout bounds each call to a store separately: listing many keys is many calls.
func WithTimeout(s lease.Admin) lease.Admin { return timeoutStore{s} }

type timeoutStore struct{ lease.Admin }

func (s timeoutStore) Inspect(ctx context.Context, key string) (lease.Status, error) {
	return bounded(ctx, func(ctx context.Context) (lease.Status, error) { return s.Admin.Inspect(ctx, key) })
}

func (s timeoutStore) Keys(ctx context.Context) ([]string, error) {
	return bounded(ctx, func(ctx context.Context) ([]string, error) { return s.Admin.Keys(ctx) })
}

func (s timeoutStore) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return bounded(ctx, func(ctx context.Context) (lease.Status, error) { return s.Admin.HandOver(ctx, key) })
}

func (s timeoutStore) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	return bounded(ctx, func(ctx context.Context) (lease.Status, error) { return s.Admin.Revoke(ctx, key, now) })
}

func (s timeoutStore) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return bounded(ctx, func(ctx context.Context) (lease.Status, error) { return s.Admin.Pause(ctx, key, d, by, reason) })
}

func (s timeoutStore) Forget(ctx context.Context, key string, token bool) (lease.Status, error) {
	return bounded(ctx, func(ctx context.Context) (lease.Status, error) { return s.Admin.Forget(ctx, key, token) })
}

func (s timeoutStore) Resume(ctx context.Context, key string) (lease.Status, error) {
	return bounded(ctx, func(ctx context.Context) (lease.Status, error) { return s.Admin.Resume(ctx, key) })
}

func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return call(ctx)
}
