// Package config holds the settings of a run: their values, their defaults, how
// one value is read from text and which rules hold between several. It promises
// that a Config that passed [Config.Validate] can be used as it is, and that no
// error shows a store's address, since that may hold a password.
//
// It does not know where a value comes from (flags, environment, a file: package
// cmd) nor what a store's address means (the store). It imports the standard
// library only; package cmd is its user.
package config

import (
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Forever as Config.Wait stands by without a limit.
const Forever = time.Duration(math.MaxInt64)

// ShortTTL is the TTL below which the time to kill a tree (half a second at
// least is set aside) eats into the grace and the retries of a renewal: allowed,
// with a warning.
const ShortTTL = 3 * time.Second

// Config is everything that a run is told. Start from [Default], add what was
// said with [Config.Set], then call [Config.Validate].
type Config struct {
	// Key names the lease; the same key excludes.
	Key string
	// Store is the address of the store, possibly with a password: never print
	// it. StoreSource tells people where it was named, "LEADERRUN_STORE" say; it
	// is empty while the address is only the default.
	Store, StoreSource string
	// Prefix starts the names of all keys in the store.
	Prefix string

	// TTL is the life of a lease without renewals, Renew the interval of the
	// renewals, Retry the pause between attempts while the store cannot wake a
	// standby. They are 0 until given or derived by Validate.
	TTL, Renew, Retry time.Duration
	Profile           Profile
	// Wait is how long a candidate stands by: 0 not at all, or Forever.
	Wait time.Duration

	// SkipExitCode is the status when somebody else leads. SkipExitCodeNamed:
	// it was given, so it also stands for a wait that ran out.
	SkipExitCode      int
	SkipExitCodeNamed bool
	// Signal is the first signal of a stop. SignalNamed: it was given, so it
	// also replaces the signal that leaderrun itself is told to stop with.
	Signal      syscall.Signal
	SignalNamed bool
	// KillAfter is the grace of an ordered stop, LostGrace of a lost lease.
	KillAfter, LostGrace time.Duration
	// StopOnRenewError gives up leadership at the first failed renewal.
	StopOnRenewError bool
	// Leftovers says what becomes of descendants that outlive the command, and
	// MaxRuntime how long the command may run; 0: as long as it likes.
	Leftovers  Leftovers
	MaxRuntime time.Duration
	// Rejoin stands by again after a lost or expired lease.
	Rejoin bool
	// MinHold keeps the lease at least that long, also when the command ends
	// sooner.
	MinHold time.Duration
	// OncePer is the period of ticks, of which each gets one successful run and
	// at most Tries starts; 0: there are no ticks. Tries is 0 until given or
	// derived by Validate.
	OncePer time.Duration
	Tries   int

	// OutcomeFile is written at the end of the run; empty: none.
	OutcomeFile string
	// MetricsTextfile is the directory of the metrics' file; empty: none.
	MetricsTextfile string
	// MetricsListen is the address at which metrics are served; empty: nowhere.
	MetricsListen string
	// OnAcquire, OnLost and OnSkip are programs and their arguments, to be run when
	// that happens; empty: none.
	OnAcquire, OnLost, OnSkip []string

	Verbose, Quiet bool
	JSONLog        bool

	// Command is COMMAND and its arguments as typed, Path the file to execute.
	Command []string
	Path    string
}

// Default is a Config in which nothing was said.
func Default() Config {
	return Config{
		Store:     "redis://127.0.0.1:6379/0",
		Prefix:    "leaderrun",
		Profile:   Normal,
		Leftovers: Stop,
		Signal:    syscall.SIGTERM,
		KillAfter: 10 * time.Second,
		LostGrace: time.Second,
	}
}

// Set reads one setting from text; name is that of its flag without dashes. The
// error is an *Error. An empty value is an error for every setting: a variable
// that was meant to hold the key must not turn into no key.
func (c *Config) Set(name, value string) error {
	problem := c.set(name, value)
	if problem == nil {
		return nil
	}
	problem.Setting = name
	if name != "store" { // it may hold a password
		problem.Value = value
	}
	return problem
}

func (c *Config) set(name, value string) (e *Error) {
	if value == "" {
		return &Error{Problem: "is empty", Cure: "give it a value, or remove it"}
	}
	switch name {
	case "key":
		c.Key, e = parseName(value)
	case "store":
		c.Store, e = parseAddress(value)
	case "prefix":
		c.Prefix, e = parseName(value)
	case "ttl":
		c.TTL, e = parsePositive(value)
	case "renew":
		c.Renew, e = parsePositive(value)
	case "retry":
		c.Retry, e = parsePositive(value)
	case "profile":
		c.Profile, e = parseProfile(value)
	case "wait":
		c.Wait, e = parseWait(value)
	case "skip-exit-code":
		c.SkipExitCode, e = parseExitCode(value)
		c.SkipExitCodeNamed = true
	case "signal":
		c.Signal, e = parseSignal(value)
		c.SignalNamed = true
	case "kill-after":
		c.KillAfter, e = parseDuration(value)
	case "lost-grace":
		c.LostGrace, e = parseDuration(value)
	case "on-renew-error":
		c.StopOnRenewError, e = parseChoice(value, "retry", "stop")
	case "leftovers":
		c.Leftovers, e = parseLeftovers(value)
	case "max-runtime":
		c.MaxRuntime, e = parsePositive(value)
	case "rejoin":
		c.Rejoin, e = parseBool(value)
	case "min-hold":
		c.MinHold, e = parseDuration(value)
	case "once-per":
		c.OncePer, e = parsePositive(value)
	case "tries":
		c.Tries, e = parseTries(value)
	case "outcome-file":
		c.OutcomeFile, e = parseText(value)
	case "metrics-textfile":
		c.MetricsTextfile, e = parseText(value)
	case "metrics-listen":
		c.MetricsListen, e = parseListen(value)
	case "on-acquire":
		c.OnAcquire, e = parseWords(value)
	case "on-lost":
		c.OnLost, e = parseWords(value)
	case "on-skip":
		c.OnSkip, e = parseWords(value)
	case "verbose":
		c.Verbose, e = parseBool(value)
	case "quiet":
		c.Quiet, e = parseBool(value)
	case "log-format":
		c.JSONLog, e = parseChoice(value, "text", "json")
	default:
		e = &Error{Problem: "no such setting", Cure: "leaderrun --help lists all of them"}
	}
	return e
}

// Error is a setting that cannot be used, or a command line that cannot.
type Error struct {
	// Setting is the name of the flag without dashes; empty when the error is
	// about none. Source says where the value was found, if it was not the flag.
	Setting, Source string
	// Value is what was given; empty when that must not or need not be shown.
	Value string
	// Problem says what is wrong, Cure what to do about it.
	Problem, Cure string
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
		where += " " + strconv.Quote(Shown(e.Value))
	}
	return where + ": " + e.Problem
}

// Shown is a value as messages may show it: on one line of a terminal, and never
// more of an address than its scheme, since the rest may hold a password.
func Shown(value string) string {
	const most = 60
	if scheme, _, isAddress := strings.Cut(value, "://"); isAddress {
		value = scheme + "://…"
	}
	if runes := []rune(value); len(runes) > most {
		value = string(runes[:most]) + "…"
	}
	return value
}
