package observe

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Line is a campaign.Observer that shows on a terminal what a standby waits for: in one line,
// which is rewritten every second, and erased when the wait ends. It shows nothing in the
// background. It is also a writer: what is written to it, such as log records, appears above it.
type Line struct {
	key string
	on  func() bool

	mu    sync.Mutex
	w     io.Writer
	what  func(elapsed time.Duration) string
	since time.Time     // when that was learnt
	stop  chan struct{} // ends the rewriting; nil while nothing is shown
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
	switch {
	case !t.To.Phase.Waiting():
		l.hide()
	case t.Event.Kind == elect.Denied && denied(t.To) && t.To.Denial.Why != lease.Settling: // that is over soon
		l.show(func(elapsed time.Duration) string { return t.To.Denial.After(elapsed).String() })
	case t.Event.Kind == elect.MayNotLead:
		l.show(func(time.Duration) string { return t.Event.Err.Error() })
	}
}

func (l *Line) show(what func(elapsed time.Duration) string) {
	l.what, l.since = what, time.Now()
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
	return fmt.Sprintf("leaderrun: %s: standing by: %s", l.key, Printable(l.what(time.Since(l.since))))
}

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
