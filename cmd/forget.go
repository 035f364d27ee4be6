package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func forgetCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "forget --key NAME [--with-token]",
		Short: "Remove what the store knows about a key that nobody holds",
		Long: `Remove what the store knows about a key that nobody holds: its runs, candidates, ticks and period. A tick that was served
may then run again. The fencing token stays, so that sinks do not refuse the next leader.

  --with-token   remove the token, too, for a key that is out of use: status no longer lists it

Exit status: 0 done; 1 not done: the key is held or paused, a minimum hold goes on, the last holder vanished, a lease that
was taken away is not over yet, or nothing is known of the key; 69 the store is away.`,
		Example: "  leaderrun forget --key nightly",
		Args:    noArguments,
	}
	flags := addFlags(command, append(storeFlags, "key")...)
	token := command.Flags().Bool("with-token", false, "remove the fencing token, too")
	command.RunE = func(*cobra.Command, []string) error {
		return flags.ask(func(ctx context.Context, store lease.Admin, key string) error {
			return forget(ctx, store, key, *token, *flags.told)
		})
	}
	return command
}

func forget(ctx context.Context, store lease.Admin, key string, token bool, told settings.Told) error {
	s, err := store.Forget(ctx, key, token)
	if err != nil {
		return err
	}
	no := func(text string) error { return answerLine(key+": not forgotten: "+told.Hint(text), errNo) }
	switch {
	case s.Pause != (lease.Pause{}):
		return no(s.Paused().String() + "; leaderrun resume --key " + key + " ends that")
	case s.Why == lease.Foreign:
		return no(s.Condition().String() + "; once you know that no program needs it, leaderrun release --force --now --key " + key + " deletes it")
	case s.Why != "":
		return no(s.Condition().String())
	case s.Holder != "":
		return no(fmt.Sprintf("%s did not report its end; once you know that its command does not run, leaderrun release --force --now --key %s", s.Holder.Host(), key))
	case !remembered(s):
		return answerLine(key+": nothing is known of it", errNo)
	case token:
		return answerLine(fmt.Sprintf("%s: forgotten, with its token %d", key, s.Token), nil)
	}
	return answerLine(fmt.Sprintf("%s: forgotten, but for its token %d", key, s.Token), nil)
}

// remembered reports whether the store knows anything about a key.
func remembered(s lease.Status) bool {
	return !s.AtRest() || s.Token != 0 || s.ServedTick != 0 || len(s.Runs) > 0 || len(s.Candidates) > 0
}
