// Package settings reads and checks the settings of a run: one table of all settings,
// their sources, their parsers, and the rules between them. It guarantees that a Config
// that passed [Config.Validate] can be used as it is, and that no error shows a store's
// address, which may contain a password.
//
// It does not interpret a store's address: the store does.
package settings

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/schedule"
)

// ShortTTL is the TTL below which the kill margin (at least half a second) leaves
// little time for retries and grace: allowed, with a warning.
const ShortTTL = 3 * time.Second

// Config has all settings of a run, and its command. Start from [Default], add the
// given values with [Config.Set], then call [Config.Validate].
type Config struct {
	// Key names the lease. Only one run per key has it.
	Key string
	// Slots is how many runs may lead at a time.
	Slots int
	// Store is the address of the store. It may contain a password: never print it.
	// StoreSource says where it was named, such as "LEADERRUN_STORE"; it is empty
	// if the address is the default.
	Store, StoreSource string
	// Told is how this user named the store, for hints.
	Told Told
	// Prefix is put before all keys in the store.
	Prefix string

	// TTL is the life of a lease without renewals, Renew the interval of renewals,
	// Retry the pause between attempts while the store cannot wake a standby. They
	// are 0 until they are given or derived by Validate.
	TTL, Renew, Retry time.Duration
	Profile           Profile
	// Wait is how long a candidate stands by: 0 not at all, or candidate.Forever.
	Wait time.Duration

	// Eligible is a program and its arguments: this host asks only while it succeeds,
	// always if empty.
	Eligible []string

	// SkipExitCode is the status if somebody else leads. SkipExitCodeNamed reports
	// that it was given: then it is also the status of a wait that ran out.
	SkipExitCode      int
	SkipExitCodeNamed bool
	// Signal is the first signal of a stop. SignalNamed reports that it was given:
	// then it also replaces a signal that was sent to leaderrun.
	Signal      syscall.Signal
	SignalNamed bool
	// KillAfter is the grace of an ordered stop, LostGrace of a lost lease.
	KillAfter, LostGrace time.Duration
	// StopOnRenewError gives up leadership at the first failed renewal.
	StopOnRenewError bool
	// Leftovers says what to do with descendants that outlive the command.
	// MaxRuntime is how long the command may run; 0 means no limit.
	Leftovers  candidate.Leftovers
	MaxRuntime time.Duration
	// Rejoin stands by again after a lost or expired lease.
	Rejoin bool
	// MinHold keeps the lease at least that long, even if the command ends sooner.
	MinHold time.Duration
	// OncePer is the period of ticks; Schedule is used instead for a cron expression.
	// Tick is the time that decides which tick this run is for, in milliseconds since
	// 1970; 0 means the store's time. Each tick gets one successful run and at most
	// Tries starts; Tries is 0 until it is given or derived by Validate. If OncePer,
	// Schedule and Tick are all unset there are no ticks.
	// Repeats: a success on another host a moment ago does not keep this run from starting.
	OncePer  time.Duration
	Repeats  bool
	Schedule *schedule.Schedule
	Tick     int64
	Tries    int

	// MetricsTextfile is the directory for the file of metrics, if not empty.
	MetricsTextfile string
	// MetricsListen is the address where metrics are served, if not empty.
	MetricsListen string
	// OnAcquire, OnLost, OnEnd and OnSkip are the hooks: programs and their arguments.
	OnAcquire, OnLost, OnEnd, OnSkip []string
	// Ping is the URL that is told of starts and ends, if not empty.
	Ping string

	// Verbose is 1 for messages about what happens, 2 for every step, too.
	Verbose        int
	Quiet, JSONLog bool

	// Command is COMMAND and its arguments as typed; Path is the file to execute.
	Command []string
	Path    string
}

// Recent returns for how long a success on another host makes a run superfluous: the run's line
// says nothing of its own about when it is to run, and is the same in the crontab of each host.
func (c *Config) Recent() time.Duration {
	const spread = 30 * time.Second // of the hosts' clocks; the ticks of cron are a minute apart
	if c.Repeats || c.HasTicks() || c.Wait != 0 || c.MinHold != 0 || c.Rejoin || c.Slots > 1 {
		return 0
	}
	return spread
}

// HasTicks reports whether runs are for ticks.
func (c *Config) HasTicks() bool { return c.OncePer > 0 || c.Schedule != nil || c.Tick != 0 }

// ExactTicks reports whether ticks are compared exactly and not by their distance.
func (c *Config) ExactTicks() bool { return c.HasTicks() && c.OncePer == 0 }

// Profile is a named TTL. The renew interval is a third of it, as always.
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

// Error is an error in a setting or in the command line.
type Error struct {
	// Setting is the name of the flag without dashes; empty if the error is about
	// none. Source says where the value was found, if not in the flag.
	Setting, Source string
	// Value is the value given; empty if it must not or need not be shown.
	Value string
	// Problem says what is wrong, Hint what to do about it.
	Problem, Hint string
}

func (e *Error) Error() string {
	if e.Setting == "" {
		return e.Problem
	}
	where := e.Source
	if where == "" {
		where = "--" + e.Setting
	}
	if e.Value != "" {
		where += " " + strconv.Quote(Redact(e.Value))
	}
	return where + ": " + e.Problem
}

// Redact returns a value in a form that messages may show: not too long, and only the scheme
// of an address, since the rest may contain a password.
func Redact(value string) string {
	const most = 60
	if scheme, _, isAddress := strings.Cut(value, "://"); isAddress {
		value = scheme + "://…"
	}
	if runes := []rune(value); len(runes) > most {
		value = string(runes[:most]) + "…"
	}
	return value
}
