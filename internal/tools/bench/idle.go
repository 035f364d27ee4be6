//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"
)

// idle counts the server's requests from standbys while nothing happens.
func idle(b *bench) error {
	const standbys, ttl, ttls = 10, 3 * time.Second, 3
	holder, err := b.newCandidates("idle", ttl)
	if err != nil {
		return err
	}
	others, err := b.newCandidates("idle", ttl)
	if err != nil {
		return err
	}
	nothing, letGo := func() {}, make(chan time.Time)
	err = holder.lead(nothing, letGo)
	if err == nil {
		for range standbys {
			others.join(&command{started: nothing, ended: nothing, over: briefly})
		}
		err = b.redis.awaitStandbys(standbys)
	}
	if err == nil {
		err = count(b.redis, holder.calls, standbys, ttl, ttls)
	}
	ended := others.end()
	close(letGo)
	return errors.Join(err, ended, holder.end())
}

func count(redis *server, holder *calls, standbys int, ttl time.Duration, ttls int) error {
	before, err := redis.info()
	if err != nil {
		return err
	}
	renewals := holder.renew.Load()
	time.Sleep(time.Duration(ttls) * ttl)
	renewals = holder.renew.Load() - renewals
	after, err := redis.info()
	if err != nil {
		return err
	}
	per := func(n float64) float64 { return n / float64(standbys*ttls) }
	asked := func(command string) float64 { return after.calls(command) - before.calls(command) }
	eval, blpop, hello := per(asked("eval")-float64(renewals)), per(asked("blpop")), per(asked("hello"))
	fmt.Printf("  %d standbys for %d TTLs of %s: each asks %.2f times per TTL (EVAL %.2f, BLPOP %.2f, HELLO of a new connection %.2f)\n",
		standbys, ttls, ttl, eval+blpop+hello, eval, blpop, hello)
	return nil
}
