package cmd

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/settings"
)

// pages are generated: go test ./cmd -run TestManPages -update.
//
//go:embed man/*.1
var pages embed.FS

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man [VERB]",
		Short:   "Print the manual page of a run or of a verb",
		Long:    "Print the manual page of a run or of a verb.",
		Example: "  leaderrun man | man -l -\n  leaderrun man status > leaderrun-status.1",
		RunE: func(_ *cobra.Command, args []string) error {
			page, err := pages.ReadFile("man/" + strings.Join(append([]string{"leaderrun"}, args...), "-") + ".1")
			if err != nil {
				return &settings.Error{Problem: "no such page", Hint: "leaderrun help lists the verbs"}
			}
			const source, manual = `"leaderrun`, `" "leaderrun"`
			version := source + " " + buildInfo().Main.Version + manual
			return writeAnswer(strings.Replace(string(page), source+manual, version, 1))
		},
	}
}
