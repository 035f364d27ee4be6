// Package settings holds the settings of a run: one table of all of them, where
// their values come from, how one is read from text, and which rules hold between
// several. It promises that a Config that passed [Config.Validate] can be used as it
// is, and that no error shows a store's address, since that may hold a password.
//
// It does not know what a store's address means: that is the store's.
package settings

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/schedule"
)

// ShortTTL is the TTL below which the time to kill a tree (half a second at
// least is set aside) eats into the grace and the retries of a renewal: allowed,
// with a warning.
const ShortTTL = 3 * time.Second

// Config is all settings of a run, and its command. Start from [Default], add what is
// given with [Config.Set], then call [Config.Validate].
type Config struct {
	// Key names the lease; the same key excludes.
	Key string
	// Store is the address of the store, possibly with a password: never print
	// it. StoreSource says where it was named, "LEADERRUN_STORE" say; it
	// is empty while the address is only the default.
	Store, StoreSource string
	// Prefix starts the names of all keys in the store.
	Prefix string

	// TTL is the life of a lease without renewals, Renew the interval of the
	// renewals, Retry the pause between attempts while the store cannot wake a
	// standby. They are 0 until given or derived by Validate.
	TTL, Renew, Retry time.Duration
	Profile           Profile
	// Wait is how long a candidate stands by: 0 not at all, or elect.Forever.
	Wait time.Duration

	// Eligible is a program and its arguments: this host asks only while it succeeds;
	// empty: always. Yield is for how long a candidate leaves a key that may be free to
	// others.
	Eligible []string
	Yield    time.Duration

	// SkipExitCode is the status when somebody else leads. SkipExitCodeNamed:
	// it was given, so it also stands for a wait that ran out.
	SkipExitCode      int
	SkipExitCodeNamed bool
	// Signal is the first signal of a stop. SignalNamed: it was given, so it
	// also replaces the signal that leaderrun itself was sent.
	Signal      syscall.Signal
	SignalNamed bool
	// KillAfter is the grace of an ordered stop, LostGrace of a lost lease.
	KillAfter, LostGrace time.Duration
	// StopOnRenewError gives up leadership at the first failed renewal.
	StopOnRenewError bool
	// Leftovers says what becomes of descendants that outlive the command, and
	// MaxRuntime how long the command may run; 0: as long as it likes.
	Leftovers  elect.Leftovers
	MaxRuntime time.Duration
	// Rejoin stands by again after a lost or expired lease.
	Rejoin bool
	// MinHold keeps the lease at least that long, also when the command ends
	// sooner.
	MinHold time.Duration
	// OncePer is the period of ticks, or Schedule has them. Tick is the time that
	// decides which one is this run's, in milliseconds since 1970; 0: the store's. Each
	// tick gets one successful run and at most Tries starts, which is 0 until given or
	// derived by Validate. Without any of the first three there are no ticks.
	OncePer  time.Duration
	Schedule *schedule.Schedule
	Tick     int64
	Tries    int

	// OutcomeFile is written at the end of the run; empty: none.
	OutcomeFile string
	// MetricsTextfile is the directory of the metrics' file; empty: none.
	MetricsTextfile string
	// MetricsListen is the address at which metrics are served; empty: nowhere.
	MetricsListen string
	// OnAcquire, OnLost, OnEnd and OnSkip are programs and their arguments, to be run
	// when that happens; empty: none.
	OnAcquire, OnLost, OnEnd, OnSkip []string

	Verbose, Quiet bool
	JSONLog        bool

	// Command is COMMAND and its arguments as typed, Path the file to execute.
	Command []string
	Path    string
}

// HasTicks reports whether runs are for ticks.
func (c *Config) HasTicks() bool { return c.OncePer > 0 || c.Schedule != nil || c.Tick != 0 }

// ExactTicks reports whether ticks have names, of which two are the same or not.
func (c *Config) ExactTicks() bool { return c.HasTicks() && c.OncePer == 0 }

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

// Error is a setting that cannot be used, or a command line that cannot.
type Error struct {
	// Setting is the name of the flag without dashes; empty when the error is
	// about none. Source says where the value was found, if it was not the flag.
	Setting, Source string
	// Value is what was given; empty when that must not or need not be shown.
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

// Redact returns a value as messages may show it: on one line of a terminal, and never
// more of an address than its scheme, since the rest may hold a password.
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
