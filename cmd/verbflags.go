package cmd

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/run"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// verbFlags are the run flags that a verb accepts.
type verbFlags struct {
	verb  string
	flags *pflag.FlagSet
	told  *settings.Told // once the settings are read
}

// addFlags adds the run flags with these names to command.
func addFlags(command *cobra.Command, names ...string) verbFlags {
	v := verbFlags{command.Name(), settings.NewFlags(), new(settings.Told)}
	for _, name := range names {
		command.Flags().AddFlag(v.flags.Lookup(name))
	}
	v.complete(command)
	return v
}

// storeFlags are the flags of every verb that asks the store.
var storeFlags = []string{"store", "prefix", "config"}

// read reads and checks the settings of a verb.
func (v verbFlags) read() (settings.Config, *settings.Sources, error) {
	c, s, err := settings.Read(v.flags, settings.Files())
	*v.told = c.Told
	if err == nil {
		err = s.Locate(c.ValidateSettings())
	}
	return c, s, err
}

// readStore reads the settings of a verb that asks the store.
func (v verbFlags) readStore() (settings.Config, *settings.Sources, error) {
	c, s, err := v.read()
	if err == nil {
		err = settings.CheckStore(&c)
	}
	return c, s, err
}

// ask calls question with the store and the key of --key, which is required. The store has
// run.StoreTimeout for all of it.
func (v verbFlags) ask(question func(ctx context.Context, store lease.Admin, key string) error) error {
	return v.withKey(func(store lease.Admin, key string) error {
		ctx, cancel := context.WithTimeout(context.Background(), run.StoreTimeout)
		defer cancel()
		return question(ctx, store, key)
	})
}

// withKey is ask without a limit of time.
func (v verbFlags) withKey(question func(store lease.Admin, key string) error) error {
	c, _, err := v.readStore()
	if err == nil && c.Key == "" {
		err = &settings.Error{Problem: "no key: --key is missing", Hint: "name it with --key NAME; leaderrun status lists all keys"}
	}
	if err != nil {
		return err
	}
	return v.withStore(c, func(store lease.Admin) error { return question(store, c.Key) })
}

// withStore opens the store, calls question with it, and closes it.
func (v verbFlags) withStore(c settings.Config, question func(store lease.Admin) error) error {
	log := newLogger(os.Stderr, c)
	if c.StoreSource == "" {
		log.Warn("no store named: asking Redis on THIS host", observe.EventAdvice, observe.HintAttr, nameStore())
	}
	store, err := run.OpenExisting(c, log)
	if err != nil {
		return &verbError{c.Told, v.verb, openError(c, err)}
	}
	defer func() { _ = store.Close() }()
	if err := question(store); err != nil {
		return &verbError{c.Told, v.verb, err}
	}
	return nil
}

func noArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := command.Name()
	hint := "to run a command of that name: leaderrun --key NAME -- " + name + " ARG"
	if command.Flags().Lookup("key") != nil && lease.ValidKey(args[0]) {
		hint = "did you mean --key " + args[0] + "? " + hint
	}
	return &settings.Error{Problem: name + " takes no arguments", Hint: hint}
}

// complete registers the completions of flag values: their choices, and for --key the
// keys in the store.
func (v verbFlags) complete(command *cobra.Command) {
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if s := settings.Find(f.Name); s != nil && s.Choices != nil {
			_ = command.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(s.Choices, cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
		}
		if f.Name == "key" {
			_ = command.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return v.keys(), cobra.ShellCompDirectiveNoFileComp
			})
		}
	})
}

// keys returns the keys in the store, none if it does not answer within a second:
// somebody waits at a prompt.
func (v verbFlags) keys() []string {
	c, _, err := v.readStore()
	if err != nil {
		return nil
	}
	store, err := run.OpenExisting(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	keys, _ := store.Keys(ctx) // none is as good as an error
	return keys
}
