package s3

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// The writers of a race, and how many races there are.
const (
	writers = 8
	races   = 5
)

// Examine implements [lease.Examiner].
func (s *Store) Examine(ctx context.Context, _, _ time.Duration) []lease.Finding {
	k := keeper{s}
	name := s.dir + "doctor" // no key's
	sent := s.Now()
	most, last, err := 0, answer{}, error(nil)
	for range races {
		if last, err = k.ask(ctx, request{method: http.MethodGet, name: name}); err != nil && last.code != codeNoKey {
			return []lease.Finding{lease.Broken("server", s.storeError(ctx, "status", err))}
		}
		most = max(most, k.race(ctx, name, last))
	}
	_, _ = k.ask(ctx, request{method: http.MethodDelete, name: name}) // a run needs no such right
	conditions := lease.Passed("conditions", fmt.Sprintf("of %d writes at a time one was taken, %d times", writers, races))
	switch {
	case most > 1:
		conditions = lease.Failed("conditions", fmt.Sprintf("of %d writes at a time, with one condition, it took %d: two runs could lead at a time", writers, most), hintServer)
	case most == 0:
		conditions = lease.Warned("conditions", fmt.Sprintf("of %d writes at a time none was taken", writers), "try again: another doctor may have tried at the same time")
	}
	server := fmt.Sprintf("S3 at %s, bucket %s, region %s", s.place.host(), s.place.bucket, s.place.region)
	return []lease.Finding{lease.Passed("server", server), conditions, s.clocks(last.date, s.Now()-sent)}
}

// race sends several writes with one condition at a time, and returns how many were taken. Nobody sends
// the last byte before all have sent the others: a server that compares before it has the whole
// body does so for all of them.
func (k keeper) race(ctx context.Context, name string, last answer) (taken int) {
	const size = 8 << 10 // more than a client keeps back
	var version any
	if last.etag != "" {
		version = last.etag
	}
	var arrived, won atomic.Int32
	all := make(chan struct{})
	meet := func() {
		if arrived.Add(1) == writers {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(time.Second): // some cannot connect
		}
	}
	var end sync.WaitGroup
	for range writers {
		w := request{method: http.MethodPut, name: name, body: fmt.Appendf(nil, "%q%*s", rand.Text(), size, ""), last: meet}
		w.header, w.value = unchanged(version)
		end.Go(func() {
			if _, err := k.write(ctx, w); err == nil {
				won.Add(1)
			}
		})
	}
	end.Wait()
	return int(won.Load())
}

// clocks compares this host's clock with the server's. Signatures name the host's time.
func (s *Store) clocks(date time.Time, took time.Duration) lease.Finding {
	const allowed, refused = 5 * time.Minute, 15 * time.Minute
	off := time.Until(date).Abs() //nolint:forbidigo // it compares wall clocks
	if off > allowed+took {
		return lease.Warned("clocks", fmt.Sprintf("the server's differs from this host's by %s; S3 refuses requests from %s on", off.Round(time.Second), refused), hintClock)
	}
	return lease.Passed("clocks", fmt.Sprintf("this host's is good enough for signatures; between the servers' %s is allowed", network.Apart*time.Millisecond-time.Second))
}
