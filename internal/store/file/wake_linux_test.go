package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// patience is how long anything may take on a busy machine.
const patience = 10 * time.Second

// TestWaitEnds ends each wait only once it has begun.
func TestWaitEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, s *Store, l lease.Lease)
		want error
	}{
		{"released", func(t *testing.T, s *Store, l lease.Lease) {
			must.Succeed(t, s.Release(t.Context(), l, lease.Result{Ran: true}))
		}, nil},
		{"state deleted", func(t *testing.T, s *Store, _ lease.Lease) {
			must.Succeed(t, os.Remove(filepath.Join(s.dir, "k.json")))
		}, nil},
		{"directory deleted", func(t *testing.T, s *Store, _ lease.Lease) { must.Succeed(t, os.RemoveAll(s.dir)) }, nil},
		{"directory moved away", func(t *testing.T, s *Store, _ lease.Lease) { must.Succeed(t, os.Rename(s.dir, s.dir+".old")) }, nil},
		{"state damaged", func(t *testing.T, s *Store, _ lease.Lease) { write(t, filepath.Join(s.dir, "k.json"), "{") }, lease.ErrNoWakeups}, // it asks again, and is told why
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "d"))
			l := acquire(t, s, request("k"))
			leavesNothing(t, func() {
				over := make(chan error, 1)
				go func() { over <- s.Wait(t.Context(), "k", 10*patience) }()
				awaitWatch(t)
				c.end(t, s, l)
				select {
				case err := <-over:
					if !errors.Is(err, c.want) {
						t.Errorf("wait: error %v, want %v", err, c.want)
					}
				case <-time.After(patience):
					t.Fatal("the wait goes on")
				}
			})
		})
	}
}

// awaitWatch returns when this process watches a directory.
func awaitWatch(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		infos, err := filepath.Glob("/proc/self/fdinfo/*")
		must.Succeed(t, err)
		for _, path := range infos {
			if info, err := os.ReadFile(path); err == nil && strings.Contains(string(info), "inotify wd:") {
				return
			}
		}
	}
	t.Fatal("nothing is watched")
}

// leavesNothing checks that f leaves no descriptor and no goroutine, after a while: the
// kernel needs time.
func leavesNothing(t *testing.T, f func()) {
	t.Helper()
	files, routines := descriptors(t), runtime.NumGoroutine()
	f()
	for began := time.Now(); descriptors(t) > files || runtime.NumGoroutine() > routines; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%d descriptors and %d goroutines, %d and %d before", descriptors(t), runtime.NumGoroutine(), files, routines)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Succeed(t, err)
	return len(all)
}

func TestWaitLeavesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	acquire(t, s, request("k"))
	must.Succeed(t, s.Wait(t.Context(), "k", time.Millisecond)) // the runtime's own descriptors
	for key, atMost := range map[string]time.Duration{"free": patience, "k": time.Millisecond} {
		leavesNothing(t, func() {
			for range 20 {
				must.Succeed(t, s.Wait(t.Context(), key, atMost))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	leavesNothing(t, func() {
		go func() {
			awaitWatch(t)
			cancel()
		}()
		if err := s.Wait(ctx, "k", 10*patience); !errors.As(err, new(*lease.StoreError)) || !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
	})
}

func TestNoWatchMeansNoWakeups(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "d"))
	acquire(t, s, request("k"))
	wantNone := func(why string) {
		t.Helper()
		if err := s.Wait(t.Context(), "k", 10*patience); !errors.Is(err, lease.ErrNoWakeups) {
			t.Errorf("wait %s: %v, want ErrNoWakeups", why, err)
		}
	}
	var limit unix.Rlimit
	must.Succeed(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	wantNone("without descriptors")
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	must.Succeed(t, s.Wait(t.Context(), "k", time.Millisecond))

	must.Succeed(t, os.RemoveAll(s.dir))
	wantNone("without the directory")
}
