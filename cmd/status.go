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
	"github.com/leaderrun/leaderrun/internal/run"
)

func statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "status [--key NAME]",
		Short: "Show who leads, since when, and how the last runs ended",
		Long: `Show who leads, since when, and how the last runs ended: of one key, or of all keys of the prefix.

With -o wide the list also has process ids, tokens and commands, with -o openmetrics it has metrics for a collector. WELL is
what leaderrun why says; NEXT DUE is the tick after the newest served one.

Exit status: 0 the key is taken (without --key: at least one is), 1 it is free, 69 the store is away or a key is unreadable.
With -o openmetrics 0 or 69.`,
		Example: "  leaderrun status --key nightly\n  leaderrun status -o openmetrics > leaderrun.prom\n  leaderrun status -o json | jq '.[] | select(.state == \"held\")'",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command, asWide, asMetrics)
	command.RunE = func(*cobra.Command, []string) error {
		c, _, err := flags.readStore()
		if err != nil {
			return err
		}
		return flags.withStore(c, func(store lease.Admin) error {
			text, err := statusText(context.Background(), store, c.Key, *output)
			return cmp.Or(writeAnswer(text), err)
		})
	}
	return command
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
	all, damage, err := inspectKnown(ctx, store, key)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	report.WriteMetrics(&b, all)
	return b.String(), damage
}

func keyText(ctx context.Context, store lease.Admin, key string, output format) (string, error) {
	s, err := inspect(ctx, store, key)
	if err != nil {
		return "", err
	}
	return output.text(report.KeyOf(s), func(b *bytes.Buffer) { report.WriteKey(b, s) }), yesOrNo(taken(s), nil)
}

func listText(ctx context.Context, store lease.Admin, output format) (string, error) {
	all, damage, err := inspectKnown(ctx, store, "")
	if err != nil {
		return "", err
	}
	views := make([]report.Key, 0, len(all))
	for _, s := range all {
		views = append(views, report.KeyOf(s))
	}
	return output.text(views, func(b *bytes.Buffer) { report.WriteKeys(b, all, output == asWide) }), yesOrNo(slices.ContainsFunc(all, taken), damage)
}

// inspectKnown inspects one key, or with "" all keys of the prefix except those that were
// forgotten with their token.
func inspectKnown(ctx context.Context, store lease.Admin, key string) (all []lease.Status, damage, err error) {
	if key != "" {
		return inspectAll(ctx, store, []string{key})
	}
	listing, cancel := context.WithTimeout(ctx, run.StoreTimeout)
	defer cancel()
	keys, err := store.Keys(listing)
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
		s, err := inspect(ctx, store, key)
		var failure *lease.StoreError
		switch {
		case errors.As(err, &failure) && failure.Permanent:
			s, damage = lease.Status{Key: key, Why: lease.Unreadable}, cmp.Or(damage, err)
		case err != nil:
			return nil, nil, err
		}
		all = append(all, s)
	}
	if damage != nil && !slices.ContainsFunc(all, func(s lease.Status) bool { return s.Why != lease.Unreadable }) {
		return nil, nil, damage
	}
	return all, damage, nil
}

// inspect asks about one key. Each of many keys has its own limit.
func inspect(ctx context.Context, store lease.Admin, key string) (lease.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, run.StoreTimeout)
	defer cancel()
	return store.Inspect(ctx, key)
}

func taken(s lease.Status) bool { return s.Why != "" }
