package config

import (
	"strconv"
	"strings"
	"time"
)

// Profile is a named TTL; its renew interval is a third of it, as always.
type Profile string

const (
	Fast       Profile = "fast"       // TTL 15 s, renewed every 5 s
	Normal     Profile = "normal"     // TTL 30 s, renewed every 10 s
	Unreliable Profile = "unreliable" // TTL 90 s, renewed every 30 s: for bad networks
)

func (p Profile) ttl() time.Duration {
	switch p {
	case Fast:
		return 15 * time.Second
	case Unreliable:
		return 90 * time.Second
	}
	return 30 * time.Second
}

func parseProfile(value string) (Profile, *Error) {
	switch p := Profile(value); p {
	case Fast, Normal, Unreliable:
		return p, nil
	}
	return "", &Error{Problem: "is not a profile", Cure: "use fast, normal or unreliable"}
}

// Leftovers is what to do about descendants that outlive the command.
type Leftovers string

const (
	Stop  Leftovers = "stop"  // stop them, with a warning
	Wait  Leftovers = "wait"  // keep the lease until they end
	Leave Leftovers = "leave" // release and let them be: the promise ends there
)

func parseLeftovers(value string) (Leftovers, *Error) {
	switch l := Leftovers(value); l {
	case Stop, Wait, Leave:
		return l, nil
	}
	return "", &Error{Problem: "is neither stop, wait nor leave", Cure: "use stop, wait or leave"}
}

// shortestTTL leaves a tree 160 ms to die in, which is the least that real
// machines can be trusted with.
const shortestTTL = time.Second

// Validate derives what was not said (the TTL from the profile, the renew
// interval and the retry pause from the TTL) and checks the rules that one value
// alone cannot break. The error is an *Error.
func (c *Config) Validate() error {
	switch {
	case c.Key == "":
		return &Error{Problem: "no key: --key is missing", Cure: "name the lease, the same on every host: leaderrun --key NAME -- COMMAND"}
	case len(c.Command) == 0:
		return &Error{Problem: "no command: nothing to run", Cure: "add it after the flags: leaderrun --key " + c.Key + " -- COMMAND"}
	case c.Command[0] == "":
		return &Error{Problem: "the command is empty", Cure: "is a variable in its place unset?"}
	}
	return c.ValidateSettings()
}

// ValidateSettings is Validate for those who run nothing: whatever key and
// command.
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
	switch {
	case c.TTL < shortestTTL:
		return &Error{Setting: "ttl", Value: Text(c.TTL), Problem: "is shorter than 1s", Cure: "use 1s or more; 30s is a good value"}
	case c.Renew > c.TTL/3:
		return &Error{
			Setting: "renew", Value: Text(c.Renew),
			Problem: "is more than a third of the TTL of " + Text(c.TTL) + ", so that one lost renewal would cost the lease",
			Cure:    "use --renew " + Text((c.TTL / 3).Truncate(time.Millisecond)) + " or less, or a longer --ttl",
		}
	case c.Verbose && c.Quiet:
		return &Error{Problem: "--verbose and --quiet contradict each other", Cure: "use one of them"}
	}
	return c.validateTicks()
}

const (
	// shortestPeriod leaves hosts half of it to differ in: clocks and cron daemons
	// are seldom together to a second.
	shortestPeriod = 2 * time.Second
	defaultTries   = 2
)

// validateTicks checks what --once-per goes with.
func (c *Config) validateTicks() error {
	if c.OncePer == 0 {
		if c.Tries != 0 {
			return &Error{Setting: "tries", Value: strconv.Itoa(c.Tries), Problem: "means nothing without --once-per", Cure: "add --once-per PERIOD, or leave it out"}
		}
		return nil
	}
	if c.Tries == 0 {
		c.Tries = defaultTries
	}
	refuse := func(problem, cure string) error {
		return &Error{Setting: "once-per", Value: Text(c.OncePer), Problem: problem, Cure: cure}
	}
	switch {
	case c.OncePer < shortestPeriod:
		return refuse("is shorter than 2s", "use the distance of two ticks of the schedule: 1m, 1h, 24h")
	case c.MinHold != 0:
		return refuse("and --min-hold exclude each other: a served tick already keeps late hosts from running", "leave --min-hold out")
	case c.Rejoin:
		return refuse("and --rejoin exclude each other: a service has no ticks", "use --once-per for jobs and --rejoin for services")
	case c.Wait >= c.OncePer:
		return refuse("is not longer than --wait "+Text(c.Wait)+", so that a candidate could stand by into the next tick", "use a shorter --wait")
	}
	return nil
}

// Text writes a duration as a person would: 5m, not 5m0s.
func Text(d time.Duration) string {
	if d == Forever {
		return "forever"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
