package cmd

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/report"
)

func whyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "why --key NAME",
		Short: "Say what happened last under a key, or why nobody leads, and what to do",
		Long: `Say in one sentence what happened last under a key, or why nobody leads, and which command to type next.

Exit status: 0 all is well, 1 it is not, 69 the store is away.`,
		Example: "  leaderrun why --key nightly\n  leaderrun why --key nightly -o json | jq -r .reason",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		return flags.ask(func(ctx context.Context, store lease.Admin, key string) error {
			s, err := store.Inspect(ctx, key)
			if err != nil {
				return err
			}
			return printWhy(report.Diagnose(s), *output)
		})
	}
	return command
}

func printWhy(d report.Diagnosis, output format) error {
	return yesOrNo(d.Well, output.print(d, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s: %s\n  %s\n", d.Key, observe.Printable(d.Text), observe.Printable(d.Command()))
	}))
}
