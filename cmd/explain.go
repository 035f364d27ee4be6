package cmd

import (
	"bytes"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/report"
)

func explainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain [--ttl D] [--renew D] [--kill-after D] ...",
		Short: "Show what the durations of a run lead to",
		Long: `Show what the durations of a run lead to: when it renews the lease, when it stops and kills the command if the store does
not answer, how long an outage of the store may last, and for how long nobody leads at worst. With --once-per, --tick
or --min-hold it tells which runs start.`,
		Example: "  leaderrun explain --ttl 10s\n  leaderrun explain --profile unreliable -o json",
		Args:    noArguments,
	}
	flags := addFlags(command, "ttl", "renew", "retry", "profile", "kill-after", "lost-grace", "wait", "once-per", "tick", "tries", "min-hold", "config")
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		c, _, err := flags.read()
		if err != nil {
			return err
		}
		timeline := report.TimelineOf(c)
		return output.print(timeline.Milliseconds(), func(b *bytes.Buffer) {
			timeline.Write(b)
			report.WriteTicks(b, c, time.Now().UnixMilli()) //nolint:forbidigo // an example: a run counts by the store's clock
		})
	}
	return command
}
