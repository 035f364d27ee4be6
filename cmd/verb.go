package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// verbs are the words that mean something as the very first argument.
func verbs() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"check":      checkCommand,
		"completion": completionCommand,
		"config":     configCommand,
		"doctor":     doctorCommand,
		"explain":    explainCommand,
		"help":       helpCommand,
		"history":    historyCommand,
		"install":    installCommand,
		"man":        manCommand,
		"release":    releaseCommand,
		"status":     statusCommand,
		"version":    versionCommand,
	}
}

// verb makes the tool for the one that is asked for; nil: it is none.
func verb(name string) *cobra.Command {
	switch name {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd: // completion scripts call it
		_ = os.Unsetenv("LEADERRUN_ACTIVE_HELP") // set by cobra's script for fish; it is no setting of ours
		return whole()
	}
	if command := verbs()[name]; command != nil {
		return tool(command())
	}
	return nil
}

// errNo is the answer of a verb that found out, without an error, that the thing
// asked for is not so: status 1.
var errNo = errors.New("no")

// tool is leaderrun as cobra sees it: a name with verbs.
func tool(commands ...*cobra.Command) *cobra.Command {
	p := &cobra.Command{Use: "leaderrun", SilenceErrors: true, SilenceUsage: true}
	p.CompletionOptions.DisableDefaultCmd = true
	p.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c.Flags(), err) })
	p.AddCommand(commands...)
	return p
}

// execute has cobra run a verb. What cobra writes by itself, and without a look at
// errors, is an answer like others: the help of a verb, the words that complete one.
func execute(t *cobra.Command, args []string) error {
	var answer bytes.Buffer
	t.SetOut(&answer)
	t.SetArgs(args)
	if err := t.Execute(); err != nil {
		return err
	}
	return printed(answer.String())
}

func runVerb(t *cobra.Command, args []string) int {
	err := execute(t, args)
	var address *addressError
	var store *lease.StoreError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return exitNo
	}
	fail(newLogger(os.Stderr, config.Default()), err)
	if errors.As(err, &store) && !errors.As(err, &address) {
		return exitUnavailable
	}
	return exitUsage
}

// asked is what a verb was asked with: those flags of a run that it has too, and
// where else they may be given.
type asked struct{ settings *pflag.FlagSet }

// take gives command the flags of a run with these names.
func take(command *cobra.Command, names ...string) asked {
	a := asked{newFlags()}
	for _, name := range names {
		command.Flags().AddFlag(a.settings.Lookup(name))
	}
	complete(command, a)
	return a
}

// storeFlags name a store and how it is found.
var storeFlags = []string{"store", "prefix", "config"}

// load finds the settings of a verb.
func (a asked) load() (config.Config, *sources, error) {
	c, s, err := gather(a.settings, defaultFiles())
	if err == nil {
		err = s.locate(c.ValidateSettings())
	}
	return c, s, err
}

// ask opens the store and has it asked. The key is empty where none was given.
func (a asked) ask(keyed bool, question func(ctx context.Context, c config.Config, store lease.Operator) error) error {
	c, s, err := a.load()
	if err == nil && keyed && c.Key == "" {
		err = &config.Error{Problem: "no key: --key is missing", Cure: "name the one that you ask about: --key NAME; leaderrun status lists all"}
	}
	if err == nil {
		err = s.locate(checkStore(&c))
	}
	if err != nil {
		return err
	}
	log := newLogger(os.Stderr, c)
	if c.StoreSource == "" {
		log.Warn("no store named: asking Redis on THIS host", observe.EventAdvice, observe.CureAttr, nameStore())
	}
	if err := checkThere(c); err != nil {
		return err
	}
	store, err := openStore(c, log)
	if err != nil {
		return openError(c, err)
	}
	defer func() { _ = store.Close() }()
	return question(context.Background(), c, patient{store})
}

// checkThere refuses the directory of a file store that is not there: a run makes
// it, and who only asks must not.
func checkThere(c config.Config) error {
	dir, ok := strings.CutPrefix(c.Store, "file:")
	if _, err := os.Lstat(dir); ok && errors.Is(err, fs.ErrNotExist) {
		return &lease.StoreError{Op: "file store", Err: errors.New(dir + " does not exist"), Cure: "correct the directory; the first run makes it"}
	}
	return nil
}

// printed is what a verb answers: all of it in one write, or an error.
func printed(answer string) error {
	if answer == "" { // some files refuse even that
		return nil
	}
	if _, err := os.Stdout.WriteString(answer); err != nil {
		return fmt.Errorf("the answer cannot be written: %w", err)
	}
	return nil
}

// noArguments refuses what follows a verb that needs nothing.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &config.Error{
		Problem: command.Name() + " takes no arguments",
		Cure:    "to run a command of that name: leaderrun --key NAME -- " + command.Name() + " ARG",
	}
}
