//go:build linux || darwin

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// stage shows what happens: on a terminal the events and a table that is redrawn below them,
// elsewhere only the events.
type stage struct {
	candidates []*candidate
	faults     []fault
	began      time.Duration
	live       bool // a terminal
	drawn      int  // lines of the table
}

func newStage() *stage {
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
	return &stage{began: time.Duration(proc.Now()), live: terminal}
}

// say prints an event.
func (s *stage) say(format string, args ...any) {
	s.clear()
	elapsed := time.Duration(proc.Now()) - s.began
	fmt.Printf("%6.2f s  %s\n", elapsed.Seconds(), fmt.Sprintf(format, args...))
}

// harm records a fault of a candidate.
func (s *stage) harm(to *candidate, what string) {
	s.faults = append(s.faults, fault{to, time.Duration(proc.Now()), what})
}

// clear erases the table.
func (s *stage) clear() {
	if s.drawn > 0 {
		fmt.Printf("\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// draw draws the current table.
func (s *stage) draw() {
	if !s.live {
		return
	}
	s.clear()
	fmt.Printf("\n          %-10s %-12s %s\n", "HOST", "STATE", "TOKEN")
	for _, c := range s.candidates {
		state, token := "stands by", ""
		switch {
		case c.leads():
			state, token = "LEADS", fmt.Sprint(c.newest().token)
		case c.dead:
			state = "killed"
		case c.cut:
			state = "cut off"
		}
		fmt.Printf("          %-10s %-12s %s\n", c.name, state, token)
	}
	s.drawn = len(s.candidates) + 2
}

// watch looks at the candidates for a while.
func (s *stage) watch(d time.Duration) {
	for end := time.Duration(proc.Now()) + d; time.Duration(proc.Now()) < end; {
		s.look()
	}
}

func (s *stage) look() {
	for _, c := range s.candidates {
		_ = c.look() // what cannot be read now will be read at the end
	}
	s.draw()
	time.Sleep(20 * time.Millisecond)
}

// leader waits until another candidate than before leads.
func (s *stage) leader(before *candidate, within time.Duration) (*candidate, error) {
	for end := time.Duration(proc.Now()) + within; time.Duration(proc.Now()) < end; {
		s.look()
		for _, c := range s.candidates {
			if c != before && c.leads() {
				return c, nil
			}
		}
	}
	return nil, fmt.Errorf("nobody leads within %s", within)
}

// gap returns how long nobody led.
func (s *stage) gap(before, after *candidate) time.Duration {
	_ = before.look()
	return (after.newest().first - before.newest().last).Round(time.Millisecond)
}

// overlap returns an error if two commands were alive at once or a token did not grow.
func (s *stage) overlap() error {
	var all []span
	for _, c := range s.candidates {
		if err := c.look(); err != nil {
			return err
		}
		all = append(all, c.spans...)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(all); i++ {
		if all[i].first <= all[i-1].last {
			return fmt.Errorf("two commands ran at once, with the tokens %d and %d", all[i-1].token, all[i].token)
		}
		if all[i].token <= all[i-1].token {
			return fmt.Errorf("the token %d came after %d", all[i].token, all[i-1].token)
		}
	}
	return nil
}
