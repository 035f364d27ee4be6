//go:build linux

package program

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The store's host is unreachable: packets vanish. It comes back without its data. Leaders
// keep dialling, so they restore their leases before anybody else is granted them.
func TestServerWasDarkAndIsEmpty(t *testing.T) {
	t.Parallel()
	ttl := max(12*time.Second, *serverTTL)
	stores, candidates, cable := twoHosts(t)
	server := script.StartRedisOn(t, stores, storeAddr.String())
	var all []*rivals
	for i := range 12 {
		f := &rivals{t: t, dir: t.TempDir(), store: "redis://" + server.Addr, key: fmt.Sprint("k", i), ttl: ttl, host: *candidates}
		f.candidate()
		all = append(all, f)
		time.Sleep(ttl / 3 / 12) // so that they renew at different times
	}
	for _, f := range all {
		f.started(1, patience)
	}

	dark := func(is bool) {
		t.Helper()
		must.Succeed(t, cable.SetDark(is))
	}
	lasts := ttl*11/30 + rand.N(ttl/10) // 11 to 14 s of 30
	back := time.After(lasts)
	dark(true)
	server.Restart()
	for _, f := range all {
		f.candidate("--wait=" + ttl.String())
	}
	<-back
	dark(false)
	time.Sleep(ttl / 3)

	kept := 0
	for _, f := range all {
		f.oneAtATime()
		if len(f.lines("tokens")) == 1 {
			kept++
		}
	}
	t.Logf("dark for %s, %d of %d commands go on", lasts, kept, len(all))
	if kept < len(all)/3 { // the others' time had come
		t.Errorf("dark for %s, only %d of %d commands go on", lasts, kept, len(all))
	}
}

var storeAddr, candidatesAddr = netip.MustParseAddr("10.79.0.1"), netip.MustParseAddr("10.79.0.2")

// twoHosts are joined by a cable.
func twoHosts(t *testing.T) (stores, candidates *faultnet.Host, cable *faultnet.Cable) {
	t.Helper()
	hosts := [2]*faultnet.Host{}
	for i := range hosts {
		h, err := faultnet.NewHost()
		if err != nil {
			t.Skipf("this machine allows no namespaces: %v", err)
		}
		t.Cleanup(h.Close)
		hosts[i] = h
	}
	cable, err := faultnet.Connect(
		faultnet.CableEnd{Host: hosts[0], Device: "eth0", Addr: storeAddr},
		faultnet.CableEnd{Host: hosts[1], Device: "eth0", Addr: candidatesAddr})
	must.Succeed(t, err)
	return hosts[0], hosts[1], cable
}

// A server allows nine connections for fifteen candidates. The leader keeps the connection
// for its renewals, and gets one again when the server has restarted.
func TestServerIsFull(t *testing.T) {
	ttl := max(9*time.Second, *serverTTL)
	for name, start := range map[string]func(*testing.T) (store string, restart func()){
		"redis": func(t *testing.T) (string, func()) {
			s := script.StartRedis(t, "--maxclients", "9", "--appendonly", "yes", "--appendfsync", "always")
			return "redis://" + s.Addr, s.Restart
		},
		"postgres": func(t *testing.T) (string, func()) {
			s := script.StartPostgres(t, nil, "max_connections=9", "superuser_reserved_connections=0")
			return s.URL, s.Restart
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, restart := start(t)
			f := &rivals{t: t, dir: t.TempDir(), store: store, key: "k", ttl: ttl}
			for range 15 {
				f.candidate("--wait=forever", "--rejoin")
			}
			f.started(1, patience)
			renewals := ttl * 4 / 9
			time.Sleep(renewals)
			restart()
			time.Sleep(renewals)
			f.oneAtATime()
			if tokens := f.lines("tokens"); len(tokens) != 1 {
				t.Errorf("%d commands were started, want only the leader's: %s", len(tokens), strings.Join(tokens, " "))
			}
		})
	}
}
