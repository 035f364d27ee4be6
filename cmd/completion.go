package cmd

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/config"
)

// shells are those for which there is a completion.
var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "A script that completes verbs, flags and keys in a shell",
		Example: `  leaderrun completion bash > /etc/bash_completion.d/leaderrun
  leaderrun completion zsh > "${fpath[1]}/_leaderrun"
  leaderrun completion fish > ~/.config/fish/completions/leaderrun.fish`,
		ValidArgs: shells,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return &config.Error{Problem: "completion needs the name of a shell", Cure: "use one of " + strings.Join(shells, ", ")}
			}
			return map[string]func(*cobra.Command, io.Writer) error{
				"bash": func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
				"zsh":  (*cobra.Command).GenZshCompletion,
				"fish": func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
			}[args[0]](whole(), command.OutOrStdout())
		},
	}
}

// whole is leaderrun with all its verbs, and the flags of a run.
func whole() *cobra.Command {
	t := tool()
	t.Use = "leaderrun [flags] [--] COMMAND [ARG...]"
	t.Run = func(*cobra.Command, []string) {} // or its flags are not completed
	flags := newFlags()
	flags.Lookup(nowFlag).Hidden = true
	t.Flags().SetInterspersed(false)
	t.Flags().AddFlagSet(flags)
	complete(t, asked{flags})
	for name, command := range verbs() {
		if name == "help" { // instead of cobra's
			t.SetHelpCommand(command())
			continue
		}
		t.AddCommand(command())
	}
	return t
}

// complete says what can follow the flags of a command: for --key what the store
// knows.
func complete(command *cobra.Command, a asked) {
	words := map[string][]string{
		"profile":        {"fast", "normal", "unreliable"},
		"leftovers":      {"stop", "wait", "leave"},
		"on-renew-error": {"retry", "stop"},
		"log-format":     {"text", "json"},
		"wait":           {"forever"},
	}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if choice := words[f.Name]; choice != nil {
			_ = command.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(choice, cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
		}
		if f.Name == "key" {
			_ = command.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return a.keys(), cobra.ShellCompDirectiveNoFileComp
			})
		}
	})
}

// keys are those that the store knows, if it tells them quickly: somebody has
// pressed a key.
func (a asked) keys() []string {
	c, _, err := a.load()
	if err == nil {
		err = checkStore(&c)
	}
	if err == nil {
		err = checkThere(c)
	}
	if err != nil {
		return nil
	}
	store, err := openStore(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	keys, _ := store.Keys(ctx) // none is as good as an error
	return keys
}
