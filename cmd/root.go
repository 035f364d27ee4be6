// Package cmd turns words into a run and its result into an exit status. Every
// verb has a file of its own. Besides: config.go finds the settings, wire.go
// knows the concrete types, exit.go holds the only table of statuses, say.go is
// the only file that speaks to people.
//
// Nothing but package main imports it.
package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
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
	if command := verb(args[0]); command != nil {
		return runVerb(command, args[1:])
	}
	flags := newFlags()
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		printHelp()
		return 0
	case err != nil:
		fail(newLogger(os.Stderr, config.Default()), flagError(flags, err))
		return exitUsage
	}
	return lead(flags, flags.Args())
}

func runVerb(command *cobra.Command, args []string) int {
	command.SilenceErrors, command.SilenceUsage = true, true
	command.CompletionOptions.DisableDefaultCmd = true
	command.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c.Flags(), err) })
	command.SetHelpFunc(func(*cobra.Command, []string) { printHelp() })
	command.SetArgs(args)
	if err := command.Execute(); err != nil {
		fail(newLogger(os.Stderr, config.Default()), err)
		return exitUsage
	}
	return 0
}

func verb(name string) *cobra.Command {
	switch name {
	case "help":
		return helpCommand()
	case "version":
		return versionCommand()
	}
	return nil
}

// nowFlag is -n. It has no long form: a name that begins with a dash cannot be
// typed.
const nowFlag = "-n"

// newFlags are the flags of a run. Values are read as text, since they may come
// from elsewhere too: package config knows their forms and defaults.
func newFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("leaderrun", pflag.ContinueOnError)
	f.Usage = func() {}      // Main speaks
	f.SetInterspersed(false) // what follows COMMAND is the command's
	for _, name := range []string{
		"key", "store", "prefix", "ttl", "renew", "retry", "profile",
		"lost-grace", "on-renew-error", "leftovers", "max-runtime", "min-hold", "once-per", "tries", "outcome-file", "config", "log-format",
	} {
		f.String(name, "", "")
	}
	f.StringP("wait", "w", "", "")
	f.StringP("skip-exit-code", "E", "", "")
	f.StringP("signal", "s", "", "")
	f.StringP("kill-after", "k", "", "")
	f.Bool("rejoin", false, "")
	f.BoolP("verbose", "v", false, "")
	f.BoolP("quiet", "q", false, "")
	f.BoolP(nowFlag, "n", false, "")
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
			fail(log, fmt.Errorf("%s: %w", cmp.Or(c.StoreSource, "the default store"), err))
			return exitUsage
		}
	}
	explain(log, c, result)
	if err := writeOutcomeFile(c, result); err != nil {
		log.Warn(fmt.Sprintf("the outcome file was not written: %v", err))
	}
	return status(result, c)
}

// flagError says what is wrong with the flags in this program's words. It shows
// no values: one of them may be an address with a password.
func flagError(flags *pflag.FlagSet, err error) error {
	const cure = "leaderrun --help lists the flags; those of the command belong after it"
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return &config.Error{Problem: "unknown flag -" + unknown.GetSpecifiedName(), Cure: cure}
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		e := &config.Error{Problem: "unknown flag --" + config.Shown(name), Cure: cure}
		if other := near(name, settingNames(flags)); other != "" {
			e.Cure = "did you mean --" + other + "?"
		}
		return e
	case errors.As(err, &bare):
		return &config.Error{Setting: bare.GetFlag().Name, Problem: "needs a value", Cure: "leaderrun --help tells which"}
	case errors.As(err, &invalid):
		return &config.Error{Setting: invalid.GetFlag().Name, Problem: "is a switch and takes no such value", Cure: "leave the value out"}
	}
	return &config.Error{Problem: "a flag is not written as one", Cure: cure}
}
