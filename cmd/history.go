package cmd

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/report"
)

func historyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "history --key NAME",
		Short: "Show the last 20 runs of a key",
		Long: `Show the last 20 runs of a key, newest first. "vanished" means that the run did not report its end: its host or leaderrun
died, or it could not reach the store. OUTCOME says why the run ended: exited (by itself), ordered (a signal to leaderrun),
handed-over (leaderrun release), unfit (--eligible failed), max-runtime, leftovers, detached, lost, expired, guard-died, or
killed (leaderrun itself was).

Exit status: 0 there are runs, 1 there are none, 69 the store is away.`,
		Example: "  leaderrun history --key nightly\n  leaderrun history --key nightly -o json | jq '.[0].exit'",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		return flags.ask(func(ctx context.Context, store lease.Admin, key string) error {
			return showHistory(ctx, store, key, *output)
		})
	}
	return command
}

func showHistory(ctx context.Context, store lease.Admin, key string, output format) error {
	s, err := store.Inspect(ctx, key)
	if err != nil {
		return err
	}
	err = output.print(report.RunsOf(s.Runs), func(b *bytes.Buffer) {
		if s.Pause != (lease.Pause{}) {
			b.WriteString(observe.Printable(s.Paused().String()) + "\n\n")
		}
		if len(s.Runs) == 0 {
			b.WriteString("no runs\n")
			return
		}
		report.WriteRuns(b, s.Runs)
	})
	return yesOrNo(len(s.Runs) > 0, err)
}
