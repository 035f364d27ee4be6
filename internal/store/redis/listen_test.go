package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// listening makes the holder listen, waits until the server has it among its blocked clients, and
// returns a channel for the result.
func listening(t *testing.T, b backend, s *Store, key string) <-chan error {
	t.Helper()
	heard := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { heard <- s.Listen(ctx, key) }()
	awaits(t, "waiting client", func() bool { return b.waiting(t) > 0 })
	return heard
}

// waiting returns the number of clients that block on a list.
func (b backend) waiting(t *testing.T) int {
	t.Helper()
	n, err := b.raw.Info(t.Context(), "clients").Result()
	must.Succeed(t, err)
	_, rest, _ := strings.Cut(n, "blocked_clients:")
	count, _, _ := strings.Cut(rest, "\r\n")
	blocked, err := strconv.Atoi(count)
	must.Succeed(t, err)
	return blocked
}

// After a network cut the server still has old connections that wait for a call. It serves
// them first, and the holder is called all the same.
func TestLostConnectionsWaitToo(t *testing.T) {
	b := realBackend(t)
	s := open(t, b.addr)
	l := grant(t, s, request("k"))
	const lost = 25
	for range lost {
		c, err := net.Dial("tcp", b.addr)
		must.Succeed(t, err)
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "BRPOPLPUSH %[1]s %[1]s 0\r\n", s.companion("call", "k"))
	}
	awaits(t, "waiting client", func() bool { return b.waiting(t) == lost })
	heard := networktest.Start(func() error { return s.Listen(bounded(t), "k") })
	awaits(t, "waiting client", func() bool { return b.waiting(t) == lost+1 })
	b.do(t, "DEL", "leaderrun:leader:k")
	_, _ = open(t, b.addr).Acquire(bounded(t), request("k"))
	if err := endOf(t, heard); err != nil {
		t.Errorf("heard %v", err)
	}

	// The renewal answers the call: the holder is not called again.
	renew(t, s, l)
	if n := b.raw.Exists(t.Context(), s.companion("call", "k")).Val(); n != 0 {
		t.Error("the call outlives its answer")
	}
}

// A call is heard even if it comes before the holder listens.
func TestCallWaits(t *testing.T) {
	b := realBackend(t)
	s := open(t, b.addr)
	grant(t, s, request("k"))
	b.do(t, "FLUSHALL")
	_, _ = open(t, b.addr).Acquire(bounded(t), request("k"))
	if err := s.Listen(bounded(t), "k"); err != nil {
		t.Errorf("heard %v", err)
	}
}

func TestListenerWithoutServer(t *testing.T) {
	server := script.StartRedis(t)
	b := backend{addr: server.Addr, raw: rawClient(t, server.Addr)}
	s := open(t, server.Addr)
	heard := listening(t, b, s, "k")
	server.Kill()
	var unknown *lease.StoreError
	if err := endOf(t, heard); !errors.As(err, &unknown) || unknown.Permanent {
		t.Errorf("a server that died: %v", err)
	}
	if err := s.Listen(bounded(t), "k"); !errors.As(err, &unknown) || !unknown.Refused {
		t.Errorf("no server: %v", err)
	}
}

func TestNoRightToWait(t *testing.T) {
	server := script.StartRedis(t, user("cron on >sesame ~* +@all -blpop -brpoplpush")...)
	s := open(t, "cron:sesame@"+server.Addr)
	for _, err := range []error{s.Listen(bounded(t), "k"), s.Wait(bounded(t), "k", time.Minute)} {
		if !errors.Is(err, lease.ErrNoWakeups) {
			t.Errorf("without the right to wait: %v", err)
		}
	}
}
