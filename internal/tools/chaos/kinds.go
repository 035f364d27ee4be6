//go:build linux

package main

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

// part is what a fault affects. Two faults of one round never affect the same part: one would
// undo the other.
type part string

const (
	processes part = "processes"
	network   part = "network"
	store     part = "store"
)

// need is a condition on the store.
type need string

const (
	anything    need = ""
	proxied     need = "a proxy for each candidate"
	oldData     need = "data that can be taken back"
	ownClock    need = "a wall clock that can be set"
	connections need = "a limit of its connections"
	locks       need = "clients that can hold up the requests of others"
	replicas    need = "replicas that lag"
	quota       need = "a quota of its data"
	peers       need = "members that need each other"
	behind      need = "another store behind it"
)

// kind is one kind of fault. None kills both elector and guard, since that is not promised.
type kind struct {
	name   string
	on     part
	inject injector
	// kept says that a healthy leader keeps its lease and its command.
	kept bool
	// settles says that the next leader may have to wait for one more TTL: the store no
	// longer knows how long the lease lasts, or a renewal that was delayed arrives late and
	// restores a dead holder's lease.
	settles bool
	// needs is the condition on the store.
	needs need
	// dark says that each candidate needs its own host.
	dark bool
	// silences says that the store may be unable to reach the leader meanwhile.
	silences bool
	// uncalled excuses two trees if the leader is also out of reach in that round. A candidate
	// that knows nothing waits for the holder to be called, but less than a TTL. So both run
	// until the holder's own clock ends its lease, at most for a TTL.
	uncalled bool
	// twoServers excuses two trees and renewals of a lease that another has, where there are
	// replicas. A server that comes back before it is replaced takes its holder's renewals until
	// then, and the one that takes its place cannot call a holder that listens there. Sentinels
	// cannot prevent it.
	twoServers bool
}

var kinds = []kind{
	{name: "leader-leaves", on: processes, inject: onLeader(term, nothing)},
	{name: "elector-kill", on: processes, inject: onLeader(kill, nothing)},
	{name: "elector-stop", on: processes, inject: onLeader(stop, nothing), silences: true},
	{name: "guard-kill", on: processes, inject: onLeader(nothing, kill)},
	{name: "guard-stop", on: processes, inject: onLeader(nothing, stop)},
	{name: "elector-stop,guard-stop", on: processes, inject: onLeader(stop, stop), silences: true},
	{name: "elector-kill,guard-stop", on: processes, inject: onLeader(kill, stop), silences: true},
	{name: "elector-stop,guard-kill", on: processes, inject: onLeader(stop, kill), silences: true},
	{name: "standby-kill", on: processes, inject: onStandby(kill), kept: true},
	{name: "standby-stop", on: processes, inject: onStandby(stop), kept: true},
	{name: "net-reset", on: network, needs: proxied, inject: onNet(faultnet.Reset), silences: true},
	{name: "net-refuse", on: network, needs: proxied, inject: onNet(faultnet.Refuse), silences: true},
	{name: "net-swallow", on: network, needs: proxied, inject: onNet(faultnet.Swallow), silences: true},
	{name: "net-drop-replies", on: network, needs: proxied, inject: onNet(faultnet.DropReplies), silences: true},
	{name: "net-delay", on: network, needs: proxied, inject: delay, silences: true, settles: true},
	{name: "net-dark", on: network, inject: goDark, silences: true, dark: true, settles: true},
	{name: "store-kill", on: store, inject: killStore, twoServers: true},
	{name: "store-stop", on: store, inject: stopStore, twoServers: true},
	{name: "store-lag", on: store, needs: replicas, inject: lag(true), settles: true, uncalled: true},
	{name: "store-lag-return", on: store, needs: replicas, inject: lag(false), settles: true, twoServers: true},
	{name: "store-full", on: store, needs: connections, inject: fillStore, kept: true},
	{name: "store-clock-ahead", on: store, needs: ownClock, inject: stepClock(+1), kept: true, settles: true},
	{name: "store-clock-back", on: store, needs: ownClock, inject: stepClock(-1), kept: true, settles: true},
	// The call of the holder is held up.
	{name: "store-locked-clock-ahead", on: store, needs: locks, inject: lockAndStep, settles: true},
	{name: "store-rollback", on: store, needs: oldData, inject: rollBack, settles: true, uncalled: true},
	{name: "store-empty", on: store, needs: oldData, inject: emptyStore, settles: true, uncalled: true},
	{name: "store-quota", on: store, needs: quota, inject: useUpQuota},
	{name: "store-partition", on: store, needs: peers, inject: partition, dark: true},
	{name: "store-behind-stop", on: store, needs: behind, inject: onBehind("stop")},
	{name: "store-behind-kill", on: store, needs: behind, inject: onBehind("kill")},
	{name: "store-behind-cut", on: store, needs: behind, inject: onBehind("cut")},
	{name: "store-dark-empty", on: store, needs: oldData, inject: darkAndEmpty, settles: true, dark: true, uncalled: true},
}

// kindsLike returns the kinds whose whole name the expression matches, or all, as far as
// they are possible.
func kindsLike(expression string, of world, hosts bool) ([]kind, error) {
	re, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nil, fmt.Errorf("-faults: %w", err)
	}
	found := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return k.needs != anything && !slices.Contains(of.has, k.needs) || k.dark && !hosts || expression != "" && !re.MatchString(k.name)
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("-faults %s: there is no such fault of this store, or not without hosts of their own", expression)
	}
	return found, nil
}
