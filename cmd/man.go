package cmd

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/config"
)

// pages are written by TestManPages -update from what the commands say.
//
//go:embed man/*.1
var pages embed.FS

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man [VERB]",
		Short:   "The manual page, of a run or of a verb",
		Example: "  leaderrun man | man -l -\n  leaderrun man status > leaderrun-status.1",
		RunE: func(_ *cobra.Command, args []string) error {
			page, err := pages.ReadFile("man/" + strings.Join(append([]string{"leaderrun"}, args...), "-") + ".1")
			if err != nil {
				return &config.Error{Problem: "no such page", Cure: "leaderrun help lists the verbs"}
			}
			return printed(string(page))
		},
	}
}
