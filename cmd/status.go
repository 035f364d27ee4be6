package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "status [--key NAME]",
		Short: "Show who leads, since when, and how the last runs ended",
		Long: `Show who leads, since when, and how the last runs ended: of one key, or of all keys of the prefix.

With -o openmetrics it prints metrics for a collector. With --watch it asks again every two seconds, or every D with
--watch=D, until it is interrupted. A terminal shows only the last answer; any other output gets all of them.

Exit status: 0 the key is taken (without --key: at least one is), 1 it is free, 69 the store is away or a key is unreadable.
With -o openmetrics 0 or 69. With --watch 69 if the first answer fails; after that only a signal ends it.`,
		Example: "  leaderrun status --key nightly\n  leaderrun status --watch=5s\n  leaderrun status -o openmetrics > leaderrun.prom\n  leaderrun status -o json | jq '.[] | select(.state == \"held\")'",
		Args:    statusArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command, asMetrics)
	interval := watchFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		every, err := watchInterval(*interval, *output)
		if err != nil {
			return err
		}
		c, _, err := flags.readStore()
		if err != nil {
			return err
		}
		return withStore(c, func(ctx context.Context, store lease.Admin) error {
			look := func() (string, error) { return statusText(ctx, store, c.Key, *output) }
			if every > 0 {
				return newWatcher(c).watch(ctx, every, look)
			}
			text, err := look()
			return cmp.Or(writeAnswer(text), err)
		})
	}
	return command
}

// statusArguments refuses arguments. One may be meant as the interval of --watch.
func statusArguments(command *cobra.Command, args []string) error {
	if len(args) == 1 && command.Flags().Changed("watch") {
		return &settings.Error{Problem: "status takes no arguments", Hint: "is it the interval? write --watch=" + settings.Redact(args[0])}
	}
	return noArguments(command, args)
}

// statusText returns the status of one key or of all, "" if the store does not answer. The
// error is errNo if the keys are free.
func statusText(ctx context.Context, store lease.Admin, key string, output format) (string, error) {
	switch {
	case output == asMetrics:
		return metricsText(ctx, store, key)
	case key != "":
		return keyText(ctx, store, key, output)
	}
	return listText(ctx, store, output)
}

func metricsText(ctx context.Context, store lease.Admin, key string) (string, error) {
	inspect := inspectKnown
	if key != "" {
		inspect = func(ctx context.Context, store lease.Admin) ([]lease.Status, error, error) {
			return inspectAll(ctx, store, []string{key})
		}
	}
	all, damage, err := inspect(ctx, store)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	report.WriteMetrics(&b, all)
	return b.String(), damage
}

func keyText(ctx context.Context, store lease.Admin, key string, output format) (string, error) {
	s, err := store.Inspect(ctx, key)
	if err != nil {
		return "", err
	}
	return output.text(report.KeyOf(s), func(b *bytes.Buffer) { report.WriteKey(b, s) }), yesOrNo(taken(s), nil)
}

func listText(ctx context.Context, store lease.Admin, output format) (string, error) {
	all, damage, err := inspectKnown(ctx, store)
	if err != nil {
		return "", err
	}
	views := make([]report.Key, 0, len(all))
	for _, s := range all {
		views = append(views, report.KeyOf(s))
	}
	return output.text(views, func(b *bytes.Buffer) { report.WriteKeys(b, all) }), yesOrNo(slices.ContainsFunc(all, taken), damage)
}

// inspectKnown inspects all keys of the prefix except those that were forgotten with
// their token.
func inspectKnown(ctx context.Context, store lease.Admin) (all []lease.Status, damage, err error) {
	keys, err := store.Keys(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, damage, err = inspectAll(ctx, store, keys)
	return slices.DeleteFunc(all, func(s lease.Status) bool { return !remembered(s) }), damage, err
}

// inspectAll inspects these keys. A damaged key does not hide the others: it is listed
// as unreadable. damage is the error of the first damaged key.
func inspectAll(ctx context.Context, store lease.Admin, keys []string) (all []lease.Status, damage, err error) {
	for _, key := range keys {
		s, err := store.Inspect(ctx, key)
		var failure *lease.StoreError
		switch {
		case errors.As(err, &failure) && failure.Permanent:
			s, damage = lease.Status{Key: key, Why: report.Unreadable}, cmp.Or(damage, err)
		case err != nil:
			return nil, nil, err
		}
		all = append(all, s)
	}
	if damage != nil && !slices.ContainsFunc(all, func(s lease.Status) bool { return s.Why != report.Unreadable }) {
		return nil, nil, damage
	}
	return all, damage, nil
}

func taken(s lease.Status) bool { return s.Why != "" }
