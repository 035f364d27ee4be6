//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/faultnet"
)

const (
	key        = "chaos"
	candidates = 3
)

// lane is a store and the candidates for one key in it, each behind a proxy.
type lane struct {
	options
	dir, marks string
	server     *server
	witness    *witness
	proxies    [candidates]*faultnet.Proxy
	children   [candidates]*child
	found      *tally
}

// work does rounds until there are none left.
func work(ctx context.Context, o options, dir string, rounds <-chan int) (*tally, error) {
	l := &lane{options: o, dir: dir, marks: filepath.Join(dir, "marks"), found: newTally()}
	defer l.close()
	if err := l.open(); err != nil {
		return l.found, err
	}
	for n := range rounds {
		if err := l.round(ctx, n); err != nil {
			return l.found, fmt.Errorf("round %d: %w", n, err)
		}
	}
	return l.found, l.finish()
}

func (l *lane) open() error {
	err := os.MkdirAll(l.marks, 0o700)
	if err != nil {
		return err
	}
	if l.server, err = newServer(l.store, l.dir); err != nil {
		return err
	}
	if l.witness, err = watch(l.server); err != nil {
		return err
	}
	for i := range l.proxies {
		if l.proxies[i], err = faultnet.Listen(l.server.addr); err != nil {
			return err
		}
	}
	return nil
}

// finish ends everybody in good order; then nothing of any tree may live.
func (l *lane) finish() error {
	end(l.children[:]...)
	if err := l.judge(); err != nil {
		return err
	}
	if t, ok := newest(l.marks); ok {
		for _, life := range t.lives {
			if isMark(life, l.marks) {
				l.found.survivors++
				fmt.Printf("VIOLATION process %d (%s) of the tree %d outlived leaderrun\n", life.pid, life.kind, t.token)
			}
		}
	}
	return nil
}

func (l *lane) close() {
	end(l.children[:]...)
	for _, p := range l.proxies {
		if p != nil {
			p.Close()
		}
	}
	if l.witness != nil {
		l.witness.close()
	}
	if l.server != nil {
		l.server.stop()
	}
	// After a violation something may live that nobody else would end.
	if all, err := trees(l.marks); err == nil {
		for _, t := range all {
			for _, life := range t.lives {
				if isMark(life, l.marks) {
					_ = syscall.Kill(life.pid, syscall.SIGKILL)
				}
			}
		}
	}
}

// revive starts every candidate that is not there, again.
func (l *lane) revive() error {
	for i, c := range l.children {
		if c != nil && !c.ended() {
			continue
		}
		log, err := os.OpenFile(fmt.Sprintf("%s/candidate%d.log", l.dir, i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		mark := fmt.Sprintf("mark %s %d ", l.marks, i)
		command := strings.Join([]string{mark + "plain", mark + "deaf", mark + "daemon", "wait"}, " & ")
		cmd := exec.Command("leaderrun", "-v", "--key", key, "--prefix", prefix, "--store", l.server.url(l.proxies[i].Addr()),
			"--ttl", l.ttl.String(), "--kill-after", "300ms", "--wait", "forever", "--rejoin", "--", "sh", "-c", command)
		cmd.Stdout, cmd.Stderr = log, log
		l.children[i], err = launch(cmd)
		log.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// leadsSince reports whether somebody's command writes marks, and did so a moment
// after that instant: one that was being killed then does not count.
func (l *lane) leadsSince(instant time.Duration) bool {
	const moment = 50 * time.Millisecond
	t, ok := newest(l.marks)
	return ok && t.last > instant+moment && clock()-t.last < moment
}

// limit is how long it may take until somebody leads when all is well again: the
// dead leader's TTL, a standby's pause, the margin; and a start on a busy machine.
func (l *lane) limit() time.Duration {
	return l.ttl + l.ttl/6 + l.ttl/100 + 5*time.Millisecond + 500*time.Millisecond
}

func (l *lane) round(ctx context.Context, n int) error {
	if err := l.revive(); err != nil {
		return err
	}
	before := clock()
	if err := await(ctx, "a leader", func() bool { return l.leadsSince(before) }); err != nil {
		return err
	}
	was, _ := newest(l.marks)
	begin := clock()
	harms := l.draw(n)
	if err := l.suffer(ctx, harms); err != nil {
		return err
	}
	healed, again := clock(), time.Duration(0)
	if err := await(ctx, "a leader after the last fault", func() bool { return l.leadsSince(healed) }); err != nil {
		return err
	}
	is, _ := newest(l.marks)
	if is.first > healed {
		again = is.first - healed
		l.found.again = append(l.found.again, ms(again))
	}
	if again > l.limit() {
		l.found.unled++
		fmt.Printf("VIOLATION round %d: nobody led for %s after the last fault, %s are the limit\n", n, again, l.limit())
	}
	if err := l.judge(); err != nil {
		return err
	}
	l.found.rounds++
	kept := "the leader stayed"
	if is.token != was.token {
		kept = "another led"
	}
	told := make([]string, 0, len(harms))
	for _, h := range harms {
		told = append(told, h.String())
		l.found.faults[h.kind]++
	}
	fmt.Printf("round %4d  %5.1f s  %s, %3.0f ms after the last fault: %s\n", n, (clock() - begin).Seconds(), kept, ms(again), strings.Join(told, "; "))
	return nil
}

// suffer does all harm of a round and returns when it is over.
func (l *lane) suffer(ctx context.Context, harms []harm) error {
	errs := make([]error, len(harms))
	var all sync.WaitGroup
	for i, h := range harms {
		all.Go(func() {
			pause(ctx, h.after)
			undo, err := faults[h.kind](l, h)
			if err != nil {
				errs[i] = err
				return
			}
			pause(ctx, h.lasts)
			errs[i] = undo()
		})
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
