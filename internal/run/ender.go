package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// holding is what an ender must know of a run. File is the lease file.
type holding struct {
	Store, Prefix string
	Lease         lease.Lease
	File          string
}

// forEnder returns the holding as text, "" if there can be no ender.
func forEnder(c settings.Config, l lease.Lease, file string) string {
	text, err := json.Marshal(holding{c.Store, c.Prefix, l, file})
	if err != nil {
		return ""
	}
	return string(text)
}

// End ends the lease of a leaderrun that has died, of whose tree nothing lives. It tries until the
// guard's kill-by: the lease ends by itself soon after that, so what End cannot do is no error.
func End() error {
	told, killBy, err := runner.Told()
	if err != nil {
		return err
	}
	time.AfterFunc(killBy-runner.Now(), func() { os.Exit(0) }) // a disk that hangs, too
	var h holding
	if err := json.Unmarshal(told, &h); err != nil {
		return err
	}
	_ = os.Remove(h.File)
	store, err := open(settings.Config{Store: h.Store, Prefix: h.Prefix}, slog.New(slog.DiscardHandler), true)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	t := elect.NewTiming(h.Lease.TTL, h.Lease.TTL, 0)
	killed := lease.Result{Ran: true, Exit: lease.ExitSignalled + int(syscall.SIGKILL), Outcome: lease.OutcomeKilled}
	for timeout := t.FirstAttempt; runner.Now() < killBy; timeout = t.Attempt {
		err := release(store, h.Lease, killed, min(timeout, killBy-runner.Now()))
		if failure, ok := errors.AsType[*lease.StoreError](err); !ok || failure.Permanent { // done, or in vain
			return nil
		}
		time.Sleep(t.Pause)
	}
	return nil
}

func release(store lease.Store, l lease.Lease, r lease.Result, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return store.Release(ctx, l, r)
}
