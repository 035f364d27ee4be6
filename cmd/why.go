package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func whyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "why [--key NAME]",
		Short: "Say what happened last under a key, or why nobody leads, and what to do",
		Long: `Say in one sentence what happened last under a key, or why nobody leads, and which command to type next. Without --key it
does that for all keys of the prefix that are not well, the worst first.

Exit status: 0 all is well, 1 it is not, 69 the store is away.`,
		Example: "  leaderrun why\n  leaderrun why --key nightly\n  leaderrun why --key nightly -o json | jq -r .reason",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		c, _, err := flags.readStore()
		if err != nil {
			return err
		}
		return flags.withStore(c, func(store lease.Admin) error {
			if c.Key == "" {
				return whyAll(store, c.Told, *output)
			}
			s, err := inspect(context.Background(), store, c.Key)
			if err != nil {
				return err
			}
			return printWhy(diagnosed(s, c.Told), *output)
		})
	}
	return command
}

// diagnosed returns the diagnosis of a key with a next command that asks the same store.
func diagnosed(s lease.Status, told settings.Told) report.Diagnosis {
	d := report.Diagnose(s)
	d.Next = told.Hint(d.Next)
	return d
}

// whyAll says which keys are not well.
func whyAll(store lease.Admin, told settings.Told, output format) error {
	all, damage, err := inspectKnown(context.Background(), store, "")
	if err != nil {
		return err
	}
	bad := []report.Diagnosis{}
	for _, s := range all {
		if d := diagnosed(s, told); !d.Well {
			bad = append(bad, d)
		}
	}
	report.WorstFirst(bad)
	err = output.print(bad, func(b *bytes.Buffer) {
		if len(bad) == 0 {
			fmt.Fprintf(b, "all is well, keys: %d\n", len(all))
		}
		for _, d := range bad {
			writeWhy(b, d)
		}
	})
	return yesOrNo(len(bad) == 0, cmp.Or(err, damage))
}

func printWhy(d report.Diagnosis, output format) error {
	return yesOrNo(d.Well, output.print(d, func(b *bytes.Buffer) { writeWhy(b, d) }))
}

func writeWhy(b *bytes.Buffer, d report.Diagnosis) {
	fmt.Fprintf(b, "%s: %s\n  %s\n", d.Key, observe.Printable(d.Text), observe.Printable(d.Command()))
}
