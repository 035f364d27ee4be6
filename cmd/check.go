package cmd

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// checkCommand is the verb with which COMMAND, or one of its descendants, asks whether
// it still leads. It reads one file, and prints only to a terminal.
func checkCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "check [--min-left D]",
		Short: "For COMMAND: ask whether it still leads",
		Long: `For COMMAND and all that it starts: ask whether it still leads. It reads only the file that LEADERRUN_LEASE_FILE names,
and asks no store. On a terminal it says why not.

Exit status: 0 while it leads, 1 otherwise.`,
		Example: "  leaderrun check --min-left 5s || exit 1",
		Args:    noArguments,
	}
	minLeft := &settings.Text{Value: "0s", Kind: "D"}
	command.Flags().Var(minLeft, "min-left", "0 only if it leads for at least D more")
	command.RunE = func(*cobra.Command, []string) error {
		left, err := settings.Duration("min-left", minLeft.Value)
		if err != nil {
			return err
		}
		why := whyNot(left)
		if why != "" && isTerminal(os.Stderr) {
			fmt.Fprintln(os.Stderr, "leaderrun: "+why)
		}
		return yesOrNo(why == "", nil)
	}
	return command
}

// whyNot returns "" if the lease named by the environment has more than left until stop-by, otherwise
// why not. Missing variables can turn a yes into a no, never a no into a yes.
func whyNot(left time.Duration) string {
	file := os.Getenv(settings.LeaseFileVariable)
	l, err := leasefile.Read(file)
	now := runner.Now()
	switch {
	case file == "":
		return "this is no command of leaderrun: " + settings.LeaseFileVariable + " is not set"
	case err != nil:
		return "the lease is over, or its file cannot be read: " + settings.Cause(err)
	case now >= l.StopBy:
		return "the lease is over: the time to stop was " + lease.Span(now-l.StopBy) + " ago"
	case now+left >= l.StopBy:
		return "it leads for " + lease.Span(l.StopBy-now) + " more, unless the lease is renewed"
	case !matches(settings.HolderVariable, l.Holder) || !matches(settings.TokenVariable, strconv.FormatInt(l.Token, 10)):
		return "the lease is that of another run: " + settings.HolderVariable + " or " + settings.TokenVariable + " differs from its file"
	}
	return ""
}

// matches reports whether the variable is unset or has this value.
func matches(variable, value string) bool {
	have, ok := os.LookupEnv(variable)
	return !ok || have == value
}
