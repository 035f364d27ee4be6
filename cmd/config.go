package cmd

import (
	"bytes"
	"cmp"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func configCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "config [flags of a run]",
		Short:   "Show every setting, its value and its source",
		Long:    "Show every setting that a run would have here, its value and its source. Passwords are not shown.",
		Example: "  leaderrun config\n  sudo -u USER leaderrun config --ttl 1m -o json",
		Args:    noArguments,
	}
	flags := addFlags(command, settings.Names()...)
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		c, s, err := flags.read()
		if err != nil {
			return err
		}
		views := s.Views(c)
		return output.print(views, func(b *bytes.Buffer) {
			rows := [][]string{{"SETTING", "VALUE", "FROM"}}
			for _, v := range views {
				rows = append(rows, []string{v.Name, cmp.Or(v.Value, report.Nothing), v.From})
			}
			report.WriteTable(b, rows)
		})
	}
	return command
}
