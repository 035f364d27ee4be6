package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "status [--key NAME]",
		Short: "Who leads, since when, and how the last runs went",
		Long: `Who leads, since when, and how the last runs went: of one key, or of all keys of the prefix.

With -o openmetrics it writes a file of metrics for a collector.

Exit status: 0 the key is taken (without --key: one of them is), 1 it is free, 69 the store is away. With -o openmetrics 0
unless the store is away.`,
		Example: "  leaderrun status --key nightly\n  leaderrun status -o openmetrics > leaderrun.prom\n  leaderrun status -o json | jq '.[] | select(.state == \"held\")'",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command, asMetrics)
	command.RunE = func(*cobra.Command, []string) error {
		return flags.ask(false, func(ctx context.Context, c settings.Config, store lease.Admin) error {
			if *output == asMetrics {
				return showMetrics(ctx, store, c.Key)
			}
			if c.Key != "" {
				return showStatus(ctx, store, c.Key, *output)
			}
			return listStatus(ctx, store, *output)
		})
	}
	return command
}

// showMetrics writes the metrics of one key, or of all.
func showMetrics(ctx context.Context, store lease.Admin, key string) error {
	keys := []string{key}
	if key == "" {
		var err error
		if keys, err = store.Keys(ctx); err != nil {
			return err
		}
	}
	all, damage, err := inspectAll(ctx, store, keys)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	writeMetrics(&b, all)
	return cmp.Or(writeAnswer(b.String()), damage)
}

func showStatus(ctx context.Context, store lease.Admin, key string, output format) error {
	s, err := store.Inspect(ctx, key)
	if err != nil {
		return err
	}
	err = output.print(statusView(s), func(b *bytes.Buffer) {
		table(b, statusRows(s))
		if len(s.Runs) > 0 {
			b.WriteString("\nlast runs\n")
			table(b, runRows(s.Runs[:min(len(s.Runs), 5)]))
		}
	})
	return answered(err, s)
}

func listStatus(ctx context.Context, store lease.Admin, output format) error {
	keys, err := store.Keys(ctx)
	if err != nil {
		return err
	}
	all, damage, err := inspectAll(ctx, store, keys)
	if err != nil {
		return err
	}
	views := make([]keyView, 0, len(all))
	for _, s := range all {
		views = append(views, statusView(s))
	}
	err = output.print(views, func(b *bytes.Buffer) {
		rows := [][]string{{"KEY", "STATE", "HOST", "PID", "TOKEN", "SINCE", "LEFT", "COMMAND", "LAST RUN"}}
		for _, s := range all {
			rows = append(rows, listRow(s))
		}
		table(b, rows)
	})
	return answered(cmp.Or(err, damage), all...)
}

// inspectAll inspects all keys. A damaged one must not hide the others: it is listed
// as unreadable, and damage is the error of the first.
func inspectAll(ctx context.Context, store lease.Admin, keys []string) (all []lease.Status, damage, err error) {
	for _, key := range keys {
		s, err := store.Inspect(ctx, key)
		var failure *lease.StoreError
		switch {
		case errors.As(err, &failure) && failure.Permanent:
			s, damage = lease.Status{Key: key, Why: unreadable}, cmp.Or(damage, err)
		case err != nil:
			return nil, nil, err
		}
		all = append(all, s)
	}
	if damage != nil && !slices.ContainsFunc(all, func(s lease.Status) bool { return s.Why != unreadable }) {
		return nil, nil, damage
	}
	return all, damage, nil
}

// answered is err, or errNo if every key is free.
func answered(err error, all ...lease.Status) error {
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Why != "" {
			return nil
		}
	}
	return errNo
}
