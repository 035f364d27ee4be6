package cmd

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// checkCommand is the verb with which COMMAND, or one of its descendants, asks whether
// it still leads. It reads one file and prints nothing.
func checkCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "check [--min-left D]",
		Short: "For COMMAND: ask whether it still leads",
		Long: `For COMMAND and all that it starts: ask whether it still leads. It reads only the file that LEADERRUN_LEASE_FILE names,
and asks no store.

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
		return yesOrNo(leads(left), nil)
	}
	return command
}

// leads reports whether the lease named by the environment has more than left until
// stop-by. Missing variables can turn a yes into a no, never a no into a yes.
func leads(left time.Duration) bool {
	l, err := leasefile.Read(os.Getenv(settings.LeaseFileVariable))
	return err == nil && matches(settings.HolderVariable, l.Holder) && matches(settings.TokenVariable, strconv.FormatInt(l.Token, 10)) && runner.Now()+left < l.StopBy
}

// matches reports whether the variable is unset or has this value.
func matches(variable, value string) bool {
	have, ok := os.LookupEnv(variable)
	return !ok || have == value
}
