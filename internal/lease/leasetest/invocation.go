package leasetest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Invocation measures the calls of one invocation of leaderrun, repeatedly for one key:
// open, acquire, release, close.
func Invocation(b *testing.B, open func() (lease.Store, error)) {
	r := lease.Request{Key: "benchmark", TTL: 30 * time.Second}
	invoke := func() {
		s, err := open()
		must.Succeed(b, err)
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		defer cancel()
		r.Holder = lease.NewHolder("leasetest", os.Getpid())
		l, err := s.Acquire(ctx, r)
		for settles := new(lease.SettlingError); errors.As(err, &settles); l, err = s.Acquire(ctx, r) {
			time.Sleep(settles.Remaining)
		}
		if err == nil {
			err = s.Release(ctx, l, lease.Result{Ran: true, Success: true})
		}
		must.Succeed(b, errors.Join(err, s.Close()))
	}
	invoke() // the first one for a key is different
	for b.Loop() {
		invoke()
	}
}
