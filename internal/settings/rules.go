package settings

import (
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/store"
)

// Validate derives what was not given (the TTL from the profile, the renew
// interval and the retry pause from the TTL) and checks the rules between several
// settings. The error is an *Error.
func (c *Config) Validate() error {
	switch {
	case c.Key == "":
		return &Error{Problem: "no key: --key is missing", Hint: "name the lease, the same on every host: leaderrun --key NAME -- COMMAND"}
	case len(c.Command) == 0:
		return &Error{Problem: "no command: nothing to run", Hint: "add it after the flags: leaderrun --key " + c.Key + " -- COMMAND"}
	case c.Command[0] == "":
		return &Error{Problem: "the command is empty", Hint: "is a variable in its place unset?"}
	}
	return c.ValidateSettings()
}

// ValidateSettings is Validate for verbs, which need no key and no command.
func (c *Config) ValidateSettings() error {
	if c.TTL == 0 {
		c.TTL = c.Profile.ttl()
	}
	if c.Renew == 0 {
		c.Renew = c.TTL / 3
	}
	if c.Retry == 0 {
		c.Retry = c.TTL / 6
	}
	shortest := store.Shortest(c.Store)
	switch {
	case c.TTL < elect.MinTTL:
		return &Error{Setting: "ttl", Value: lease.FormatDuration(c.TTL), Problem: "is shorter than 1s", Hint: "use 1s or more; 30s is a good value"}
	case c.TTL < shortest:
		return &Error{Setting: "ttl", Value: lease.FormatDuration(c.TTL), Problem: "is too short for this store, where every renewal is dear", Hint: "use --ttl " + lease.FormatDuration(shortest) + " or longer"}
	case c.Renew > c.TTL/3:
		return &Error{
			Setting: "renew", Value: lease.FormatDuration(c.Renew),
			Problem: "is more than a third of the TTL of " + lease.FormatDuration(c.TTL) + ": one lost renewal would cost the lease",
			Hint:    "use --renew " + lease.FormatDuration((c.TTL / 3).Truncate(time.Millisecond)) + " or less, or a longer --ttl",
		}
	case c.Key != "" && !lease.ValidKey(slots.Key(c.Key, c.Slots)):
		return &Error{Setting: "key", Value: c.Key, Problem: "is too long for --slots", Hint: "the key of a slot is KEY/slot-N: use a shorter one"}
	case c.Slots > 1 && c.HasTicks():
		return &Error{Setting: "slots", Value: strconv.Itoa(c.Slots), Problem: "and --once-per or --tick exclude each other: a tick is for one run", Hint: "leave one of them out"}
	case c.Verbose > 0 && c.Quiet:
		return &Error{Problem: "--verbose and --quiet contradict each other", Hint: "use one of them"}
	}
	return c.validateTicks()
}

const (
	// shortestPeriod is 2 s because hosts may differ by half a period: their clocks
	// and cron daemons seldom agree to better than a second.
	shortestPeriod = 2 * time.Second
	defaultTries   = 2
)

// validateTicks checks which settings --once-per and --tick can be combined with.
func (c *Config) validateTicks() error {
	if !c.HasTicks() {
		if c.Tries != 0 {
			return &Error{Setting: "tries", Value: strconv.Itoa(c.Tries), Problem: "means nothing without --once-per or --tick", Hint: "add one of them, or leave it out"}
		}
		return nil
	}
	if c.Tries == 0 {
		c.Tries = defaultTries
	}
	refused := &Error{Setting: "once-per", Value: lease.FormatDuration(c.OncePer)}
	shortest := c.OncePer
	switch {
	case c.Schedule != nil:
		refused.Value, shortest = c.Schedule.String(), c.Schedule.Shortest()
	case c.OncePer == 0:
		refused.Setting, refused.Value = "tick", time.UnixMilli(c.Tick).Format(time.RFC3339)
	}
	refuse := func(problem, hint string) error {
		refused.Problem, refused.Hint = problem, hint
		return refused
	}
	switch {
	case c.OncePer > 0 && c.OncePer < shortestPeriod:
		return refuse("is shorter than 2s", "use the distance of two ticks of the schedule: 1m, 1h, 24h")
	case c.MinHold != 0:
		return refuse("and --min-hold exclude each other: a served tick already keeps late hosts from running", "leave --min-hold out")
	case c.Rejoin:
		return refuse("and --rejoin exclude each other: a service has no ticks", "use --once-per for jobs and --rejoin for services")
	case shortest > 0 && c.Wait >= shortest && c.Schedule != nil:
		return refuse("has ticks that are no further apart than --wait "+lease.FormatDuration(c.Wait)+": a candidate could stand by into the next tick", "use a shorter --wait")
	case shortest > 0 && c.Wait >= shortest:
		return refuse("is not longer than --wait "+lease.FormatDuration(c.Wait)+": a candidate could stand by into the next tick", "use a shorter --wait")
	}
	return nil
}
