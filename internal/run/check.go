package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// CheckEligible checks, before anything runs, that the program of --eligible can be run.
func CheckEligible(c *settings.Config) error {
	if len(c.Eligible) == 0 {
		return nil
	}
	if _, err := Lookup(c.Eligible[0]); err != nil {
		return &settings.Error{
			Setting: "eligible", Value: c.Eligible[0], Problem: "cannot be run: " + settings.Cause(err),
			Hint: hintProgram,
		}
	}
	return nil
}

// Eligible runs the program of --eligible once.
func Eligible(ctx context.Context, c settings.Config) error {
	r := runner.New("", nil)
	defer r.Close()
	return newCheck(c, r)(ctx, elect.CheckLimit)
}

// newCheck returns the check that --eligible names, or nil. Its program is run like a
// hook.
func newCheck(c settings.Config, r *runner.Runner) func(context.Context, time.Duration) error {
	if len(c.Eligible) == 0 {
		return nil
	}
	env := environment(os.Environ(), c.Key, lease.Lease{}, "")
	return func(ctx context.Context, limit time.Duration) error {
		path, err := Lookup(c.Eligible[0])
		if err == nil {
			err = r.RunHook(path, c.Eligible, env, limit, ctx.Done())
		}
		problem := errNotEligible
		switch {
		case err == nil:
			return nil
		case errors.Is(err, runner.TooLong(limit)):
			problem = elect.ErrCheckLate
		case !saysNo(err):
			problem = elect.ErrUnchecked
		}
		return fmt.Errorf("%w: %s: %w", problem, settings.Redact(c.Eligible[0]), err)
	}
}

var errNotEligible = errors.New("this host is not eligible")

// saysNo reports whether the check itself said no. With 126 and 127 shells and env(1) say that
// they cannot execute it.
func saysNo(err error) bool {
	status, ended := errors.AsType[runner.ExitStatus](err)
	return ended && status < 126
}
