//go:build linux

package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/faultnet"
)

// harm is one fault of a round.
type harm struct {
	kind         string
	after, lasts time.Duration
	delay        time.Duration // of the kind delay, in each direction
	everyone     bool          // hits the connections of all, not the leader's alone
}

func (h harm) String() string {
	text := fmt.Sprintf("%s at %s for %s", h.kind, h.after.Round(time.Millisecond), h.lasts.Round(time.Millisecond))
	if h.delay > 0 {
		text += fmt.Sprintf(" by %s", h.delay.Round(time.Millisecond))
	}
	if h.everyone {
		text += " (all)"
	}
	return text
}

// fault does harm and returns what ends it.
type fault func(*lane, harm) (undo func() error, err error)

// faults never contain elector and guard both killed: the promise excludes that.
var faults = map[string]fault{
	"elector-kill":            onLeader(kill, nothing),
	"elector-stop":            onLeader(stop, nothing),
	"guard-kill":              onLeader(nothing, kill),
	"guard-stop":              onLeader(nothing, stop),
	"elector-stop,guard-stop": onLeader(stop, stop),
	"elector-kill,guard-stop": onLeader(kill, stop),
	"elector-stop,guard-kill": onLeader(stop, kill),
	"standby-kill":            onStandby(kill),
	"standby-stop":            onStandby(stop),
	"net-reset":               onNet(faultnet.Reset),
	"net-refuse":              onNet(faultnet.Refuse),
	"net-swallow":             onNet(faultnet.Swallow),
	"net-drop-replies":        onNet(faultnet.DropReplies),
	"net-delay":               delay,
	"store-kill":              killStore,
	"store-stop":              stopStore,
}

// draw decides a round by the seed and its number alone. Processes are hurt once
// in a round; the rest may come on top.
func (l *lane) draw(round int) []harm {
	r := rand.New(rand.NewPCG(l.seed, uint64(round)))
	kinds := slices.Sorted(maps.Keys(faults))
	outside := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool {
		return !strings.HasPrefix(k, "net-") && !strings.HasPrefix(k, "store-")
	})
	harms := []harm{l.drawn(r, kinds)}
	first := harms[0].kind
	rest := slices.DeleteFunc(outside, func(k string) bool { // two on one thing would undo each other
		return k[:3] == first[:3]
	})
	if r.IntN(3) == 0 {
		harms = append(harms, l.drawn(r, rest))
	}
	return harms
}

func (l *lane) drawn(r *rand.Rand, kinds []string) harm {
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	h := harm{kind: kinds[r.IntN(len(kinds))], after: upTo(l.ttl / 3), lasts: l.ttl/4 + upTo(l.ttl*7/4), everyone: r.IntN(2) == 0}
	slow := time.Duration(float64(l.ttl) / 300 * math.Pow(600, r.Float64())) // from TTL/300 to 2 TTL
	switch h.kind {
	case "elector-kill", "guard-kill", "standby-kill": // nothing brings them back
		h.lasts = 0
	}
	if h.kind == "net-delay" {
		h.delay = slow
	}
	if !strings.HasPrefix(h.kind, "net-") {
		h.everyone = false
	}
	return h
}

// deed is what is done to a process, and how it ends.
type deed struct{ does, undoes syscall.Signal }

var (
	nothing = deed{}
	kill    = deed{does: syscall.SIGKILL}
	stop    = deed{does: syscall.SIGSTOP, undoes: syscall.SIGCONT}
)

// leader is whose tree is the newest.
func (l *lane) leader() int {
	t, _ := newest(l.marks)
	return t.who
}

// onLeader stops before it kills: who is stopped notices nothing.
func onLeader(elector, guard deed) fault {
	return func(l *lane, _ harm) (func() error, error) {
		c := l.children[l.leader()]
		held := c.guard()
		toElector := func(sig syscall.Signal) {
			if sig != 0 {
				c.signal(sig)
			}
		}
		toGuard := func(sig syscall.Signal) {
			if sig != 0 {
				signalGuard(held, sig)
			}
		}
		if guard == stop {
			toGuard(guard.does)
			toElector(elector.does)
		} else {
			toElector(elector.does)
			toGuard(guard.does)
		}
		return func() error {
			toElector(elector.undoes)
			toGuard(guard.undoes)
			return nil
		}, nil
	}
}

func onStandby(d deed) fault {
	return func(l *lane, _ harm) (func() error, error) {
		c := l.children[(l.leader()+1)%candidates]
		c.signal(d.does)
		return func() error {
			if d.undoes != 0 {
				c.signal(d.undoes)
			}
			return nil
		}, nil
	}
}

// hit are the proxies that a fault of the network concerns.
func (l *lane) hit(h harm) []*faultnet.Proxy {
	if h.everyone {
		return l.proxies[:]
	}
	who := l.leader()
	return l.proxies[who : who+1]
}

func onNet(m faultnet.Mode) fault {
	return func(l *lane, h harm) (func() error, error) {
		all := l.hit(h)
		set := func(m faultnet.Mode) error {
			for _, p := range all {
				if err := p.Set(m); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error { return set(faultnet.Pass) }, set(m)
	}
}

func delay(l *lane, h harm) (func() error, error) {
	all := l.hit(h)
	set := func(d time.Duration) {
		for _, p := range all {
			p.Delay(d)
		}
	}
	set(h.delay)
	return func() error { set(0); return nil }, nil
}

func killStore(l *lane, _ harm) (func() error, error) {
	return l.server.start, l.server.kill()
}

func stopStore(l *lane, _ harm) (func() error, error) {
	l.server.signal(syscall.SIGSTOP)
	return func() error { l.server.signal(syscall.SIGCONT); return nil }, nil
}
