package network

import (
	"context"
	"errors"
	"math"
	"time"
)

// Left returns the time that ctx still has; without a deadline it is that of centuries.
func Left(ctx context.Context) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return math.MaxInt64
	}
	return time.Until(deadline) //nolint:forbidigo // a context's deadline is on that clock
}

// Lingering returns a context that ends as ctx is cancelled, but half a second after its deadline:
// the answer that nothing came during a wait may be late, and its connection serves the next call.
func Lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	const late = 500 * time.Millisecond
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	lingering, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(late))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return lingering, func() { stop(); cancel() }
}
