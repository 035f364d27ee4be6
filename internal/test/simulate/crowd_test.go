//go:build !race

package simulate

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/redis"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A thousand standbys lose their store at the same time. When it is back, they do not all come
// at the same time. Not with the race detector, which would be too slow for a thousand
// candidates; the others do the same things.
func TestCrowdSpreads(t *testing.T) {
	const candidates, window = 1000, 50 * time.Millisecond
	for name, answer := range map[string]func(context.Context) error{
		"refuses":        func(context.Context) error { return syscall.ECONNREFUSED },
		"packets vanish": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var dials []time.Duration
				began := time.Now()
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for i := range candidates {
					store, err := redis.New(redis.Options{URL: "redis://192.0.2.1", Prefix: prefix, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
						mu.Lock()
						dials = append(dials, time.Since(began))
						mu.Unlock()
						return nil, answer(ctx)
					}})
					must.Succeed(t, err)
					orders := make(chan campaign.Received, 1)
					set := campaign.Settings{
						Settings:  elect.Settings{Timing: elect.NewTiming(30*time.Second, 10*time.Second, 0), Retry: 5 * time.Second, Wait: candidate.Forever},
						Now:       func() time.Duration { return time.Second + time.Since(began) },
						Request:   lease.Request{Key: key, TTL: 30 * time.Second},
						NewHolder: func() lease.Holder { return lease.Holder(fmt.Sprintf("host-%d/1/%032x", i, i)) },
						Signals:   orders,
					}
					running.Go(func() { campaign.Run(ctx, set, store, nil, nobody{}) })
					running.Go(func() {
						<-ctx.Done()
						orders <- campaign.Received{Signal: 15, Order: true}
					})
				}
				time.Sleep(time.Minute)
				stop()
				running.Wait()
				slices.Sort(dials)
				late := dials[candidates:] // without the first ones, which come together
				most, first := 0, 0
				for i, at := range late {
					for at-late[first] > window {
						first++
					}
					most = max(most, i-first+1)
				}
				if len(late) < 5*candidates || most > candidates/10 {
					t.Errorf("%d dials in a minute; %d in %s, want %d at most", len(late), most, window, candidates/10)
				}
				t.Logf("%d dials in a minute, %d at most in %s", len(late), most, window)
			})
		})
	}
}

// nobody is an observer that ignores everything.
type nobody struct{}

func (nobody) Observe(campaign.Transition) {}
