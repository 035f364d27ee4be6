package cmd

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// patience bounds a question to a store: as long as a run with the default TTL
// tries before it gives up.
const patience = 5 * time.Second

// patient is a store each of whose answers is waited for in its own time: a list
// of many keys is many questions.
type patient struct{ lease.Operator }

func (p patient) Inspect(ctx context.Context, key string) (lease.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Operator.Inspect(ctx, key)
}

func (p patient) Keys(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Operator.Keys(ctx)
}

func (p patient) HandOver(ctx context.Context, key string) (lease.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Operator.HandOver(ctx, key)
}

func (p patient) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Operator.Revoke(ctx, key, now)
}
