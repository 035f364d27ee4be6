package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Login keeps a login that a program or another server gives until it expires, or is no longer
// accepted. Its zero value is ready. Several goroutines may use it.
type Login[T any] struct {
	mu      sync.Mutex
	last    *login[T]
	running *asking[T] // nil if nobody is asked
}

type login[T any] struct {
	value   T
	expires time.Time // zero: never
}

// validFor reports whether the login is still valid after d.
func (l *login[T]) validFor(d time.Duration) bool {
	return l != nil && (l.expires.IsZero() || time.Until(l.expires) > d) //nolint:forbidigo // expires is wall time
}

// asking is one question for the login.
type asking[T any] struct {
	over   chan struct{} // closed when it has ended
	answer *login[T]
	err    error
}

// askLimit is how long the answer may take.
const askLimit = 30 * time.Second

// Get returns the last login if it is valid, or else asks for the next one. A login that expires
// within ahead is still used, and replaced meanwhile: so a leader, which renews more often than that
// at the usual TTLs, never waits. There is one question at a time, and it goes on after the end of
// the call that began it: some take longer than a renewal may, and then the next renewal finds the
// answer. The error is that of ask, or of ctx.
func (l *Login[T]) Get(ctx context.Context, ahead time.Duration, ask func(context.Context) (T, time.Time, error)) (value T, err error) {
	l.mu.Lock()
	last, running := l.last, l.running
	if !last.validFor(ahead) && running == nil {
		running = &asking[T]{over: make(chan struct{})}
		l.running = running
		go l.ask(running, ask)
	}
	l.mu.Unlock()
	if running == nil || last.validFor(0) {
		return last.value, nil
	}
	select {
	case <-running.over:
		if running.err != nil {
			return value, running.err
		}
		return running.answer.value, nil
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (l *Login[T]) ask(this *asking[T], ask func(context.Context) (T, time.Time, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	value, expires, err := ask(ctx)
	this.answer, this.err = &login[T]{value, expires}, err
	l.mu.Lock()
	if l.running = nil; err == nil {
		l.last = this.answer
	}
	l.mu.Unlock()
	close(this.over)
}

// Forget makes the next call ask: the last login is no longer accepted.
func (l *Login[T]) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

// Output runs a program that prints a login, and returns what it prints. The error shows what it wrote
// to stderr.
func Output(cmd *exec.Cmd) ([]byte, error) {
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err == nil || errors.Is(err, syscall.ECHILD) { // process 1 may reap it first
		return text, nil
	}
	return nil, fmt.Errorf("%w %s", err, strings.TrimSpace(lease.Cut(stderr.String(), 300)))
}
