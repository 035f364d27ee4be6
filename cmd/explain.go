package cmd

import (
	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/report"
)

func explainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain [--ttl D] [--renew D] [--kill-after D] ...",
		Short: "What the durations of a run lead to",
		Long: `What the durations of a run lead to: when it renews, when it stops and kills the command if nobody answers, how long
the store may be away, and how long nobody leads at worst.`,
		Example: "  leaderrun explain --ttl 10s\n  leaderrun explain --profile unreliable -o json",
		Args:    noArguments,
	}
	flags := addFlags(command, "ttl", "renew", "retry", "profile", "kill-after", "lost-grace", "wait", "once-per", "min-hold", "config")
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		c, _, err := flags.read()
		if err != nil {
			return err
		}
		timeline := report.TimelineOf(c)
		return output.print(timeline.Milliseconds(), timeline.Write)
	}
	return command
}
