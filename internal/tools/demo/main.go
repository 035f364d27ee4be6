//go:build linux || darwin

// Demo shows in half a minute what leaderrun is for, without any server: there are three
// candidates for one key; the leader is killed; the next leader is cut off from the store.
// The figures at the end are measured from what the commands wrote. Run it with:
// scripts/demo
//
// The store is miniredis, in the demo's own process, behind one proxy per candidate. The
// exit status is 0 only if another candidate led in time, twice, and no two commands ever
// ran at once.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

const (
	ttl = 3 * time.Second
	// inTime is how soon another candidate must lead: after the lease has expired, and a
	// second for a busy machine.
	inTime = ttl + time.Second
	// steady is how long a leader is watched before its fault.
	steady = 2 * time.Second
)

var picture string

func main() {
	if len(os.Args) == 3 && os.Args[1] == "work" {
		work(os.Args[2])
	}
	flag.StringVar(&picture, "picture", "", "draw what happened into this file, as SVG")
	flag.Parse()
	if err := demo(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo() (err error) {
	dir, err := os.MkdirTemp("", "leaderrun-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "leaderrun")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("run it from the project's directory: go build: %w\n%s", err, out)
	}
	store := miniredis.NewMiniRedis()
	store.ClockTTL(true)
	if err := store.Start(); err != nil {
		return err
	}
	defer store.Close()

	s := newStage()
	defer s.clear()
	for _, name := range []string{"berlin", "lisbon", "tokyo"} {
		proxy, err := faultnet.Listen(store.Addr())
		if err != nil {
			return err
		}
		defer proxy.Close()
		c := &candidate{name: name, marks: filepath.Join(dir, name), proxy: proxy}
		if err := c.start(program); err != nil {
			return err
		}
		defer c.stop()
		s.candidates = append(s.candidates, c)
	}
	return s.play()
}

// play runs the whole demo.
func (s *stage) play() error {
	s.say("three candidates for the key \"demo\", with a TTL of %s", ttl)
	first, err := s.leader(nil, 10*time.Second)
	if err != nil {
		return err
	}
	s.say("%s leads, the others stand by", first.name)
	s.watch(steady)

	s.say("%s is killed: SIGKILL to its leaderrun", first.name)
	s.harm(first, "SIGKILL")
	first.kill()
	second, err := s.leader(first, inTime)
	if err != nil {
		return err
	}
	s.say("%s leads, %s after the last sign of %s's command", second.name, s.gap(first, second), first.name)
	s.watch(steady)

	s.say("%s is cut off: its packets to the store vanish", second.name)
	if err := second.proxy.Set(faultnet.Swallow); err != nil {
		return err
	}
	s.harm(second, "cut off from the store")
	second.cut = true
	third, err := s.leader(second, inTime)
	if err != nil {
		return err
	}
	s.say("%s leads, %s after the last sign of %s's command, which had been stopped before", third.name, s.gap(second, third), second.name)
	s.watch(steady)

	if err := s.overlap(); err != nil {
		return err
	}
	if err := s.writePicture(picture, time.Duration(proc.Now())); err != nil {
		return err
	}
	s.say("no two commands ran at once, and the token grew with each leader: as promised")
	return nil
}
