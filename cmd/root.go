// Package cmd is the command line: it turns arguments into a run, and the result of
// the run into an exit status. Each verb has its own file; verbs.go lists them. exit.go
// has all statuses, messages.go the messages about a run, help.go the text of --help.
//
// Only package main imports it.
package cmd

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/run"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// Main runs leaderrun with these arguments, which do not include the program's name,
// and returns the exit status. A verb is recognised only as the very first argument,
// so that a command of any name can be run.
func Main(args []string) int {
	log.SetOutput(io.Discard) // net/http writes there what a server says before it is asked
	collectGarbage()
	if runner.IsEnder() {
		return end()
	}
	if os.Args[0] == holdName && len(args) == 0 {
		return wait()
	}
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		if isTerminal(os.Stderr) {
			fmt.Fprint(os.Stderr, firstSteps)
		}
		return exitUsage
	}
	if args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	if root := rootOf(args[0]); root != nil {
		return runVerb(root, args)
	}
	flags := settings.NewFlags()
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return runVerb(rootOf("help"), helpArgs(args))
	case err != nil:
		fail(newLogger(os.Stderr, settings.Default()), flagError(flags, err, verbNames()))
		return exitUsage
	}
	return leave(lead(flags, flags.Args(), false))
}

// collectGarbage has the Go runtime collect garbage as usual, whatever GOGC and GOMEMLIMIT say: they are
// meant for the command, and with GOGC=off a leader's memory would grow for as long as it leads.
func collectGarbage() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		const usual = 100
		debug.SetGCPercent(usual)
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

func runVerb(root *cobra.Command, args []string) int {
	err := execute(root, args)
	if hold, ok := errors.AsType[holding](err); ok {
		return leave(lead(hold.flags, []string{holdName}, true))
	}
	return statusOf(err)
}

// leave returns the exit status, unless the run ends by a signal.
func leave(result elect.State, status int) int {
	if sig := diesOf(result); sig != 0 {
		runner.DieOf(sig)
	}
	return status
}

// end ends the lease of a leaderrun that has died.
func end() int {
	if err := run.End(); err != nil {
		fail(newLogger(os.Stderr, settings.Default()), err)
		return exitUsage
	}
	return 0
}

// helpArgs returns the arguments of the verb help for those of a run with --help.
func helpArgs(args []string) []string {
	if slices.Contains(args, "--all") {
		return []string{"help", "--all"}
	}
	return []string{"help"}
}

// lead runs the command while leader; with hold the command is this program, which waits. Errors
// that can be found without the store are reported before the store is asked.
func lead(flags *pflag.FlagSet, command []string, hold bool) (result elect.State, status int) {
	stderr := observe.NewWriter(os.Stderr) // a blocked reader of stderr must not delay a renewal
	defer stderr.Close()
	c, err := readSettings(flags, command, settings.Files())
	line := observe.NewLine(stderr, c.Key, watched(c))
	log := runLogger(line, c)
	if err != nil {
		fail(log, err)
		return result, exitUsage
	}

	lookup := func() (string, error) { return run.Lookup(command[0]) }
	if hold {
		lookup = os.Executable
	}
	if c.Path, err = lookup(); err == nil {
		err = runner.Limits()
	}
	if err != nil {
		result.Outcome, result.Err = candidate.NotStarted, err
	} else {
		warnAbout(log, c)
		if result, err = run.Run(c, log, line, runStatus); err != nil {
			fail(log, openError(c, err))
			return result, exitUsage
		}
	}
	explainOutcome(log, c, result)
	return result, runStatus(result, c)
}

func readSettings(flags *pflag.FlagSet, command, files []string) (settings.Config, error) {
	c, sources, err := settings.Read(flags, files)
	c.Command = command
	if err != nil {
		return c, err
	}
	if c.Key == "" && len(command) > 0 {
		if hint := hintNoKey(command, verbNames()); hint != "" {
			return c, &settings.Error{Problem: "no key: --key is missing", Hint: hint}
		}
	}
	if err := sources.Check(&c); err != nil {
		return c, err
	}
	return c, sources.Locate(run.CheckEligible(&c))
}
