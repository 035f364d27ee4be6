package cmd

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/settings"
)

// verbs lists the constructors of all verbs.
func verbs() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"check":      checkCommand,
		"completion": func() *cobra.Command { return completionCommand(fullRoot) },
		"config":     configCommand,
		"doctor":     doctorCommand,
		"explain":    explainCommand,
		"forget":     forgetCommand,
		"help":       func() *cobra.Command { return helpCommand(helpOf) },
		"history":    historyCommand,
		"hold":       holdCommand,
		"install":    installCommand,
		"man":        manCommand,
		"pause":      pauseCommand,
		"release":    releaseCommand,
		"resume":     resumeCommand,
		"status":     statusCommand,
		"version":    versionCommand,
		"watch":      watchCommand,
		"why":        whyCommand,
	}
}

func verbNames() []string { return slices.Sorted(maps.Keys(verbs())) }

// rootOf returns the root command with only the verb of that name; nil if there is none.
func rootOf(name string) *cobra.Command {
	switch name {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd: // completion scripts call it
		_ = os.Unsetenv("LEADERRUN_ACTIVE_HELP") // set by cobra's script for fish; not one of our settings
		return fullRoot()
	}
	if command := verbs()[name]; command != nil {
		return newRoot(command())
	}
	return nil
}

func newRoot(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "leaderrun", SilenceErrors: true, SilenceUsage: true}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c.Flags(), err, verbNames()) })
	root.AddCommand(commands...)
	return root
}

// execute runs a verb with cobra. cobra ignores write errors, so its own output (help,
// completions) is buffered and written here.
func execute(root *cobra.Command, args []string) error {
	var answer bytes.Buffer
	root.SetOut(&answer)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return err
	}
	return writeAnswer(answer.String())
}

// statusOf returns the exit status of a verb, and says what its error is.
func statusOf(err error) int {
	if err != nil && !errors.Is(err, errNo) {
		fail(newLogger(os.Stderr, settings.Default()), err)
	}
	return verbStatus(err)
}

func helpOf(name string) error {
	command := verbs()[name]
	if command == nil {
		hint := "leaderrun help lists the verbs"
		if other := settings.Suggest(name, verbNames()); other != "" {
			hint = "did you mean leaderrun help " + other + "?"
		}
		return &settings.Error{Problem: "no such verb", Hint: hint}
	}
	return execute(newRoot(command()), []string{name, "--help"})
}

// fullRoot returns the root command with all verbs and the flags of a run, for
// completion and the manual.
func fullRoot() *cobra.Command {
	root := newRoot()
	root.Use = "leaderrun [flags] [--] COMMAND [ARG...]"
	root.Run = func(*cobra.Command, []string) {} // cobra completes the flags of a command only if it runs
	flags := settings.NewFlags()
	flags.Lookup(settings.NowFlag).Hidden = true
	root.Flags().SetInterspersed(false)
	root.Flags().AddFlagSet(flags)
	verbFlags{"", flags, new(settings.Told)}.complete(root)
	for name, command := range verbs() {
		if name == "help" { // instead of cobra's
			root.SetHelpCommand(command())
			continue
		}
		root.AddCommand(command())
	}
	return root
}
