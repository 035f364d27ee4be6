package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// holdName is the name of hold's command, a process of this program that waits, as ps and status
// show it.
const holdName = "leaderrun hold"

// wait is all that hold's command does: it waits for a signal, and dies of it.
func wait() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	sig, _ := (<-signals).(syscall.Signal)
	runner.DieOf(sig)
	return candidate.Exit{Signal: int(sig)}.Status()
}

// holding is what the verb hold asks for: a run without COMMAND.
type holding struct{ flags *pflag.FlagSet }

func (holding) Error() string { return "hold" }

// holdCommand is the verb that leads without COMMAND.
func holdCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "hold [flags]",
		Short: "Lead without COMMAND, until a signal",
		Long: `Lead until a signal ends it, without COMMAND, with the flags of a run: for programs that run on every host and ask who
leads, by --metrics-listen (/leader) or hooks. Nobody stops such a program when the lease ends: it has to ask before
each step, or write with the fencing token that /leader tells.

Exit status: as that of a run; 128+n once signal n has ended it.`,
		Example: "  leaderrun hold --key queue --wait forever --rejoin --metrics-listen 127.0.0.1:9090",
		Args:    noArguments,
	}
	flags := settings.NewFlags()
	command.Flags().AddFlagSet(flags)
	verbFlags{"hold", flags, new(settings.Told)}.complete(command)
	command.RunE = func(*cobra.Command, []string) error { return holding{flags} }
	return command
}
