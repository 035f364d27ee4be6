package cmd

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/settings"
)

var shells = []string{"bash", "zsh", "fish"}

// completionCommand is the verb completion. program makes the command to complete: the
// root with all verbs.
func completionCommand(program func() *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes verbs, flags and keys in a shell",
		Example: `  leaderrun completion bash > /etc/bash_completion.d/leaderrun
  leaderrun completion zsh > "${fpath[1]}/_leaderrun"
  leaderrun completion fish > ~/.config/fish/completions/leaderrun.fish`,
		ValidArgs: shells,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return &settings.Error{Problem: "completion needs the name of a shell", Hint: "use one of " + strings.Join(shells, ", ")}
			}
			return map[string]func(*cobra.Command, io.Writer) error{
				"bash": func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
				"zsh":  (*cobra.Command).GenZshCompletion,
				"fish": func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
			}[args[0]](program(), command.OutOrStdout())
		},
	}
}
