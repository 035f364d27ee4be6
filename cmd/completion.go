package cmd

import (
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
		Long:  "Print a script that completes verbs, flags and keys in a shell.",
		Example: `  leaderrun completion bash > /etc/bash_completion.d/leaderrun
  leaderrun completion zsh > "${fpath[1]}/_leaderrun"
  leaderrun completion fish > ~/.config/fish/completions/leaderrun.fish`,
		ValidArgs: shells,
		RunE: func(command *cobra.Command, args []string) error {
			const described = true
			switch w := command.OutOrStdout(); strings.Join(args, " ") {
			case "bash":
				return program().GenBashCompletionV2(w, described)
			case "zsh":
				return program().GenZshCompletion(w)
			case "fish":
				return program().GenFishCompletion(w, described)
			}
			return &settings.Error{Problem: "completion needs the name of a shell", Hint: "use one of " + strings.Join(shells, ", ")}
		},
	}
}
