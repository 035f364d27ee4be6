package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// name is the name of several hosts, with the addresses 10.0.0.0, 10.0.0.1 and so on.
type name []*host

func (n name) lookup(context.Context, string) (ips []net.IPAddr, err error) {
	for i := range n {
		ips = append(ips, net.IPAddr{IP: net.IPv4(10, 0, 0, byte(i))})
	}
	return ips, nil
}

func (n name) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Err() != nil { // as of net.Dialer
		return nil, ctx.Err()
	}
	var i int
	if _, err := fmt.Sscanf(addr, "10.0.0.%d:6379", &i); err != nil {
		return nil, err
	}
	return n[i].dial(ctx, network, addr)
}

func TestAddressesOfAName(t *testing.T) {
	ms := time.Millisecond
	up, dark := func() *host { return newHost(0) }, func() *host { return newHost(time.Hour) }
	fails := func(err error) func() *host { return func() *host { return &host{began: time.Now(), fails: err} } }
	refuses, unreachable := fails(syscall.ECONNREFUSED), fails(syscall.ENETUNREACH)
	type hosts []func() *host
	type at []time.Duration
	for text, c := range map[string]struct {
		hosts
		holder bool
		limit  time.Duration
		want   []at
		err    error
	}{
		"the first one answers":                 {hosts{up, up}, false, 500 * ms, []at{{0}, nil}, nil},
		"the first one is dark":                 {hosts{dark, up, up}, false, 750 * ms, []at{{0}, {150 * ms}, nil}, nil},
		"the first one refuses":                 {hosts{refuses, up}, false, 500 * ms, []at{{0}, {0}}, nil},
		"all refuse":                            {hosts{refuses, refuses}, false, 500 * ms, []at{{0}, {0}}, syscall.ECONNREFUSED},
		"refuses, this host has no IPv6":        {hosts{refuses, unreachable}, false, 500 * ms, []at{{0}, {0}}, syscall.ECONNREFUSED},
		"dark, refuses":                         {hosts{dark, refuses}, false, 500 * ms, []at{{0}, {150 * ms}}, context.DeadlineExceeded},
		"refuses, dark":                         {hosts{refuses, dark}, false, 500 * ms, []at{{0}, {0}}, context.DeadlineExceeded},
		"refuses, two are dark":                 {hosts{dark, refuses, dark}, false, 750 * ms, []at{{0}, {150 * ms}, {150 * ms}}, context.DeadlineExceeded},
		"the attempt of a TTL of 1 s":           {hosts{dark, dark, up}, false, 60 * ms, []at{{0}, {15 * ms}, {30 * ms}}, nil},
		"holder: the first one is dark":         {hosts{dark, up}, true, 500 * ms, []at{{0, 150 * ms}, {150 * ms}}, nil},
		"holder: one that refuses ends nothing": {hosts{refuses, dark}, true, 200 * ms, []at{{0, 150 * ms}, {0, 150 * ms}}, context.DeadlineExceeded},
		"holder: all refuse":                    {hosts{refuses, refuses}, true, 500 * ms, []at{{0}, {0}}, syscall.ECONNREFUSED},
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n name
				for _, h := range c.hosts {
					n = append(n, h())
				}
				dial := race(n.dial, n.lookup)
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				if c.holder {
					ctx, dial = Holder(ctx), Dialer(dial)
				}
				conn, err := dial(ctx, "tcp", "store:6379")
				if !errors.Is(err, c.err) {
					t.Errorf("%v, want %v", err, c.err)
				}
				if err == nil {
					_ = conn.Close()
				}
				synctest.Wait()
				var got []at
				for _, h := range n {
					got = append(got, h.attempts)
					if h.open != 0 || h.pending != 0 {
						t.Errorf("%d connections are open, %d attempts go on", h.open, h.pending)
					}
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("attempts at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// Of two addresses that both answer, one connection stays open.
func TestSlowerAddressIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := name{newHost(0), newHost(0)}
		slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Second) // a SYN that is on its way, and does not end with ctx
			return n.dial(context.WithoutCancel(ctx), network, addr)
		}
		c, err := race(slow, n.lookup)(t.Context(), "tcp", "store:6379")
		must.Succeed(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n[0].open != 1 || n[1].open != 0 || len(n[1].attempts) != 1 {
			t.Errorf("%d and %d connections are open, want 1 and 0", n[0].open, n[1].open)
		}
		_ = c.Close()
	})
}
