// Package cmd turns words into a run and its result into an exit status. Every
// verb has a file of its own. Besides: config.go finds the settings, wire.go
// knows the concrete types, exit.go holds the only table of statuses, say.go is
// the only file that speaks to people.
//
// Nothing but package main imports it.
package cmd

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// Main runs leaderrun with the arguments that follow its name and returns the
// exit status. A verb is recognised only as the very first argument, so that
// every command can be run, whatever its name.
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	if t := verb(args[0]); t != nil {
		return runVerb(t, args)
	}
	flags := newFlags()
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return runVerb(verb("help"), []string{"help"})
	case err != nil:
		fail(newLogger(os.Stderr, config.Default()), flagError(flags, err))
		return exitUsage
	}
	return lead(flags, flags.Args())
}

// nowFlag is -n. It has no long form: a name that begins with a dash cannot be
// typed.
const nowFlag = "-n"

// settings are the flags of a run that can be given in other places as well. The
// defaults are for people: package config has them.
var settings = []struct{ name, short, byDefault, usage string }{
	{"key", "", "", "`NAME` of what only one may run at a time"},
	{"store", "", "redis://127.0.0.1:6379/0", "`URL` of the store that all hosts share"},
	{"prefix", "", "leaderrun", "`NAME` that starts all keys in the store"},
	{"ttl", "", "30s", "life `D` of a lease that is not renewed"},
	{"renew", "", "ttl/3", "renewal interval `D`"},
	{"retry", "", "ttl/6", "pause `D` between attempts, if nothing wakes a standby"},
	{"profile", "", "normal", "fast, normal or unreliable: a TTL of 15s, 30s or 90s"},
	{"wait", "w", "0s", "stand by for `D`, or forever"},
	{"skip-exit-code", "E", "0", "exit status `N` if somebody else leads"},
	{"rejoin", "", "false", "stand by again after a lost or expired lease"},
	{"once-per", "", "", "one successful run per tick, ticks being `D` apart"},
	{"tries", "", "2", "at most `N` starts per tick"},
	{"min-hold", "", "0s", "keep the lease for `D` from the start"},
	{"signal", "s", "TERM", "first `SIGNAL` of a stop"},
	{"kill-after", "k", "10s", "time `D` from there to SIGKILL"},
	{"lost-grace", "", "1s", "the same when the lease is somebody else's"},
	{"on-renew-error", "", "retry", "retry, or stop at the first failed renewal"},
	{"leftovers", "", "stop", "stop, wait for, or leave descendants that outlive the command"},
	{"max-runtime", "", "", "stop the command after `D`"},
	{"metrics-textfile", "", "", "write metrics into `DIR`"},
	{"metrics-listen", "", "", "serve metrics and probes on `ADDRESS`"},
	{"on-acquire", "", "", "run `PROGRAM` once this host leads"},
	{"on-lost", "", "", "run `PROGRAM` when the lease is lost or expired"},
	{"on-skip", "", "", "run `PROGRAM` when somebody else leads or the tick is served"},
	{"outcome-file", "", "", "write to `FILE` how the run ended"},
	{"verbose", "v", "false", "every step on stderr"},
	{"quiet", "q", "false", "errors only on stderr"},
	{"log-format", "", "text", "text or json"},
	{"config", "", "", "settings as YAML in `FILE`"},
}

// newFlags are the flags of a run. Values are read as text, since they may come
// from elsewhere too: package config knows their forms.
func newFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("leaderrun", pflag.ContinueOnError)
	f.Usage = func() {}      // Main speaks
	f.SetInterspersed(false) // what follows COMMAND is the command's
	for _, s := range settings {
		if s.byDefault == "false" {
			f.BoolP(s.name, s.short, false, s.usage)
		} else {
			f.StringP(s.name, s.short, s.byDefault, s.usage)
		}
	}
	f.BoolP(nowFlag, "n", false, "do not stand by")
	return f
}

// lead runs the command while leader. Everything that can be wrong without the
// store is found before the store is asked.
func lead(flags *pflag.FlagSet, command []string) int {
	stderr := observe.NewWriter(os.Stderr) // a reader that is stuck must not hold up a renewal
	defer stderr.Close()
	c, err := load(flags, command, defaultFiles())
	line := observe.NewLine(stderr, c.Key, watched(c))
	log := newLogger(line, c)
	if err != nil {
		fail(log, err)
		return exitUsage
	}

	var result campaign.Result
	if c.Path, err = lookup(command[0]); err != nil {
		result.Outcome, result.Err = elect.NotStarted, err
	} else {
		warnAbout(log, c)
		if result, err = run(c, log, line); err != nil {
			fail(log, openError(c, err))
			return exitUsage
		}
	}
	explain(log, c, result)
	if err := writeOutcomeFile(c, result); err != nil {
		log.Warn(fmt.Sprintf("the outcome file was not written: %v", err), observe.EventOutcomeFile)
	}
	return status(result, c)
}

// flagError says what is wrong with the flags in this program's words. It shows
// no values: one of them may be an address with a password.
func flagError(flags *pflag.FlagSet, err error) error {
	cure := "leaderrun --help lists the flags; those of the command belong after it"
	if verb(flags.Name()) != nil {
		cure = "leaderrun " + flags.Name() + " --help lists its flags"
	}
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var known *config.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return &config.Error{Problem: "unknown flag -" + unknown.GetSpecifiedName(), Cure: cure}
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		e := &config.Error{Problem: "unknown flag --" + config.Shown(name), Cure: cure}
		if other := near(name, settingNames(flags)); other != "" {
			e.Cure = "did you mean --" + other + "?"
		}
		if verbs()[name] != nil { // other programs have --version
			e.Cure = "did you mean leaderrun " + name + "?"
		}
		return e
	case errors.As(err, &bare):
		return &config.Error{Setting: bare.GetFlag().Name, Problem: "needs a value", Cure: cure}
	case errors.As(err, &invalid):
		return &config.Error{Setting: invalid.GetFlag().Name, Problem: "is a switch and takes no such value", Cure: "leave the value out"}
	}
	return &config.Error{Problem: "a flag is not written as one", Cure: cure}
}
