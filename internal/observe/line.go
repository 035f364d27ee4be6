package observe

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Line is a campaign.Observer that shows on a terminal what a standby waits for, in one
// line that is rewritten every second and erased when the wait ends, or nothing while nobody
// looks. It is also a writer: what is written to it, such as log records, appears above the line.
type Line struct {
	key string
	on  func() bool

	mu    sync.Mutex
	w     io.Writer
	held  *lease.HeldError
	pause *lease.PausedError // newer than held, if it is not nil
	unfit error              // why this host must not lead: newer than both, if it is not nil
	since time.Time          // when held or pause came
	stop  chan struct{}      // ends the rewriting; nil while nothing is shown
	shown bool
}

// NewLine shows the standby's line for the key on the terminal w while on, which is asked before
// each change of the screen, reports true.
func NewLine(w io.Writer, key string, on func() bool) *Line { return &Line{w: w, key: key, on: on} }

const (
	erase = "\r\x1b[K"
	// Without this a long line would continue in the next one, which is not erased.
	noWrap, wrap = "\x1b[?7l", "\x1b[?7h"
)

// Observe follows the standby.
func (l *Line) Observe(t campaign.Transition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var held *lease.HeldError
	var pause *lease.PausedError
	switch {
	case !t.To.Phase.Waiting():
		l.hide()
	case errors.As(t.Event.Err, &held):
		l.held, l.pause, l.unfit, l.since = held, nil, nil, time.Now()
		l.show()
	case errors.As(t.Event.Err, &pause):
		l.pause, l.unfit, l.since = pause, nil, time.Now()
		l.show()
	case t.Event.Kind == elect.MayNotLead:
		l.unfit = t.Event.Err
		l.show()
	}
}

func (l *Line) show() {
	l.draw()
	if l.stop != nil {
		return
	}
	stop := make(chan struct{})
	l.stop = stop
	go func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case <-stop:
				return
			case <-second.C:
				l.redraw(stop)
			}
		}
	}()
}

func (l *Line) redraw(stop chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop == stop {
		l.draw()
	}
}

func (l *Line) draw() {
	if l.shown = l.on(); !l.shown {
		return
	}
	_, _ = io.WriteString(l.w, erase+noWrap+l.text()+wrap)
}

// onScreen reports whether the last line of the screen is still this one: a job that was moved to
// the background has left it to the shell.
func (l *Line) onScreen() bool { return l.shown && l.on() }

func (l *Line) text() string {
	elapsed := time.Since(l.since)
	var b strings.Builder
	fmt.Fprintf(&b, "leaderrun: %s: standing by: ", l.key)
	if l.unfit != nil {
		b.WriteString(Printable(l.unfit.Error()))
		return b.String()
	}
	if l.pause != nil {
		rest := *l.pause
		rest.Remaining = max(rest.Remaining-elapsed, 0)
		b.WriteString(Printable(rest.Error()))
		return b.String()
	}
	switch holder := lease.Holder(l.held.Value); {
	case l.held.Why == lease.HeldLeader && holder.Valid() && l.held.Since > 0:
		fmt.Fprintf(&b, "%s has led for %s", holder.Host(), seconds(l.held.Since+elapsed))
	case l.held.Why == lease.HeldLeader && holder.Valid():
		fmt.Fprintf(&b, "%s leads", holder.Host())
	case l.held.Why == lease.HeldCooldown:
		fmt.Fprintf(&b, "the minimum hold of the last run lasts for another %s", seconds(l.held.Remaining-elapsed))
	case l.held.Why == lease.HeldRevoked:
		fmt.Fprintf(&b, "the lease was revoked, its holder has %s to stop", seconds(l.held.Remaining-elapsed))
	default:
		fmt.Fprintf(&b, "the key holds %q, which leaderrun did not write", Printable(l.held.Value))
	}
	return b.String()
}

func seconds(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }

func (l *Line) hide() {
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
	if l.onScreen() {
		l.shown = false
		_, _ = io.WriteString(l.w, erase)
		if w, ok := l.w.(*Writer); ok {
			w.flush() // or it would erase what the command has written meanwhile
		}
	}
}

// Write writes b above the line.
func (l *Line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.onScreen() {
		return l.w.Write(b)
	}
	n, err := l.w.Write(append([]byte(erase), b...))
	l.draw()
	return max(0, n-len(erase)), err
}
