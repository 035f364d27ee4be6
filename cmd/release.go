package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func releaseCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "release --key NAME [--force [--now]]",
		Short: "Ask the leader to stop its command and hand over",
		Long: `Ask the leader to stop its command and to hand over: a standby takes the lease. The leader's leaderrun ends, also with
--rejoin.

  --force        take the lease away. The holder kills its command within --lost-grace, and then the key is free. If the
                 holder is dead, the key is free when its TTL ends. No other command starts before.
  --force --now  free the key at once. Use it only if you know that no command runs any more: otherwise the next leader
                 starts a second one beside it.

Both make the token grow, so a sink that checks tokens refuses later writes of the old holder.

Exit status: 0 done, 1 nobody leads, 69 the store is away.`,
		Example: "  leaderrun release --key nightly",
		Args:    noArguments,
	}
	flags := addFlags(command, append(storeFlags, "key")...)
	force := command.Flags().Bool("force", false, "take the lease away from its holder")
	now := command.Flags().Bool("now", false, "with --force: do not wait for the holder to stop")
	command.RunE = func(*cobra.Command, []string) error {
		if *now && !*force {
			return &settings.Error{Setting: "now", Problem: "means nothing without --force", Hint: "add --force if you know that nothing runs under the key"}
		}
		if !*force {
			return flags.ask(handOver)
		}
		return flags.ask(func(ctx context.Context, store lease.Admin, key string) error {
			return revoke(ctx, store, key, *now)
		})
	}
	return command
}

func handOver(ctx context.Context, store lease.Admin, key string) error {
	s, err := store.HandOver(ctx, key)
	if err != nil {
		return err
	}
	if !s.HandOver {
		text := key + ": nothing to hand over: " + s.Condition().String()
		switch s.Why {
		case lease.Cooldown:
			text += "; --force ends it"
		case lease.Revoked, lease.Foreign:
			text += "; --force --now frees the key"
		}
		return answerLine(text, errNo)
	}
	return answerLine(fmt.Sprintf("%s: asked %s to stop its command and hand over", key, report.Holder(s)), nil)
}

func revoke(ctx context.Context, store lease.Admin, key string, now bool) error {
	s, err := store.Revoke(ctx, key, now)
	if err != nil {
		return err
	}
	switch {
	case s.Why == "" && now:
		return answerLine(key+": was free: "+s.Condition().String()+"; a holder that believes that it still leads learns by its next renewal that it does not", errNo)
	case s.Why == "":
		return answerLine(key+": nothing to take away: "+s.Condition().String(), errNo)
	case s.Why == lease.Foreign && !now:
		return answerLine(fmt.Sprintf("%s: nothing taken away: %s; --force --now deletes it", key, s.Condition()), errNo)
	case s.Why == lease.Foreign:
		return answerLine(fmt.Sprintf("%s: deleted %q, which leaderrun did not write", key, s.Value), nil)
	case s.Why == lease.Cooldown:
		return answerLine(key+": ended the minimum hold of the last run, that of "+report.Holder(s), nil)
	case now:
		return answerLine(fmt.Sprintf("%s: took the lease from %s: the key is free, and if its command still runs another may start beside it", key, report.Holder(s)), nil)
	}
	did := "took the lease"
	if s.Why == lease.Revoked {
		did = "already taken"
	}
	return answerLine(fmt.Sprintf("%s: %s from %s: the key is free once it has stopped its command, or in %s if it is dead", key, did, report.Holder(s), lease.Span(s.Remaining)), nil)
}
