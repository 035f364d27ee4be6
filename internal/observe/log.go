// Package observe reports what a run does: log records and a standby's line on standard
// error, metrics, hooks, the service manager. It guarantees never to block a run: what
// nobody reads is dropped. It makes no decisions and imports no store.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

// Keys of attributes that the text form shows; JSON shows all.
const (
	KeyAttr  = "key"  // of the lease; shown before the message
	HintAttr = "hint" // what to do about it; shown on a second line
)

// Form is the format of records; the zero Form is text.
type Form struct {
	JSON bool
	// Journal starts each line of text with the priority, in the form that systemd's
	// journal reads.
	Journal bool
	// Dated gives each record of text its date and time, except in the journal, which has them.
	Dated bool
	// Hint returns a hint in the words of this user; nil leaves hints as they are.
	Hint func(string) string
}

// NewLogger writes records of at least the level to w: as text, "leaderrun: key: message"
// with the hint on a second line, or as JSON. If the level is below warnings, text has the
// time of day, since it is used to look for delays.
func NewLogger(w io.Writer, level slog.Level, form Form) *slog.Logger {
	hint := form.Hint
	if hint == nil {
		hint = func(text string) string { return text }
	}
	if form.JSON {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == HintAttr {
				a.Value = slog.StringValue(hint(a.Value.String()))
			}
			return a
		}}))
	}
	return slog.New(&textHandler{w: w, level: level, journal: form.Journal, stamp: stamp(level, form), hint: hint})
}

// stamp returns the format of the times in text, "" for none.
func stamp(level slog.Level, form Form) string {
	clock := ""
	if level < slog.LevelWarn {
		clock = "15:04:05.000 "
	}
	if form.Dated && !form.Journal {
		return time.DateOnly + " " + cmp.Or(clock, "15:04:05 ")
	}
	return clock
}

// priority returns the prefix of a line for the journal, see sd-daemon(3).
func (h *textHandler) priority(level slog.Level) string {
	switch {
	case !h.journal:
		return ""
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	case level >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}

type textHandler struct {
	w       io.Writer
	level   slog.Level
	key     string
	journal bool
	stamp   string // the format of times
	hint    func(string) string
}

func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	for _, a := range attrs {
		if a.Key == KeyAttr {
			next.key = a.Value.String() + ": "
		}
	}
	return &next
}

func (h *textHandler) WithGroup(string) slog.Handler { return h }

// Handle writes the whole record with one Write, so that lines of several
// processes on one terminal do not mix.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	priority := h.priority(r.Level)
	b.WriteString(priority + "leaderrun: " + r.Time.Format(h.stamp) + h.key)
	b.WriteString(Printable(r.Message))
	b.WriteByte('\n')
	r.Attrs(func(a slog.Attr) bool {
		if hint := a.Value.String(); a.Key == HintAttr && hint != "" {
			fmt.Fprintf(&b, "%s  %s\n", priority, Printable(h.hint(hint)))
		}
		return true
	})
	_, err := io.WriteString(h.w, b.String())
	return err
}

// Printable escapes characters in text from a store or a network that would move the
// cursor, change the direction of writing or start a new line.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Writer passes writes on to w from its own goroutine. It never blocks: while w blocks, a
// limited number of writes is queued and the rest is dropped. The goroutine starts with
// the first write, since most runs write nothing.
type Writer struct {
	w     io.Writer
	first sync.Once
	queue chan queued
	over  chan struct{}
	done  chan struct{}
}

// queued is text to write, or a channel to close once all before it is written.
type queued struct {
	b    []byte
	done chan struct{}
}

// NewWriter returns a Writer; Close ends it.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, queue: make(chan queued, 256), over: make(chan struct{}), done: make(chan struct{})}
}

func (q *Writer) drain() {
	defer close(q.done)
	// Without this a write to stdout or stderr whose reader is gone would end the program: see
	// os/signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	for {
		select {
		case next := <-q.queue:
			q.handle(next)
		case <-q.over:
			for len(q.queue) > 0 {
				q.handle(<-q.queue)
			}
			return
		}
	}
}

func (q *Writer) handle(next queued) {
	if next.done != nil {
		close(next.done)
		return
	}
	defer unstoppable()()
	_, _ = q.w.Write(next.b)
}

func (q *Writer) Write(b []byte) (int, error) {
	q.first.Do(func() { go q.drain() })
	select {
	case q.queue <- queued{b: append([]byte(nil), b...)}:
	default:
	}
	return len(b), nil
}

// flush waits until everything is written, for at most a fifth of a second.
func (q *Writer) flush() {
	q.first.Do(func() { go q.drain() })
	done := make(chan struct{})
	select {
	case q.queue <- queued{done: done}:
		await(done, time.Second/5)
	default:
	}
}

// Close waits until everything is written, for at most a second: a blocked reader must not
// keep the program from ending. Later writes, from observers that did not end in time, are
// dropped.
func (q *Writer) Close() {
	close(q.over)
	q.first.Do(func() { close(q.done) })
	await(q.done, time.Second)
}

// await waits until done is closed, for limit at most, and reports whether it is.
func await(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
