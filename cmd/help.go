package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/settings"
)

const usage = `usage: leaderrun [flags] [--] COMMAND [ARG...]
       leaderrun hold [flags]
       leaderrun status|why|history|watch|pause|resume|release|forget|check ...
       leaderrun doctor|config|explain|help|version|man|completion|install
`

// firstSteps are for people who have just installed leaderrun.
const firstSteps = `
Try it on this host, without a server:
  leaderrun --store file:/tmp/leaderrun-demo --key hello -- echo "this host leads"
Then see whether runs can work on the store that all hosts share:
  leaderrun doctor --store redis://HOST:6379/0
leaderrun --help lists the rest.
`

const purpose = "leaderrun runs a command only while this host is the leader."

// help is the text of --help: one screen.
func help() string {
	return purpose + "\n" + usage + `
The same crontab line on every host: one of them runs the job.
  0 3 * * * leaderrun --store redis://HOST --key nightly -- /opt/job.sh
A service that must run once: the others stand by and take over.
  leaderrun --store redis://HOST --key queue --wait forever -- /opt/consumer

` + settings.CommonFlagHelp() + `
Exit status: the command's own; 0 skipped, since another host leads; 69 store
away; 76 lease lost, command stopped; 125 usage. Everything: --help --all
`
}

// examples are those of the three uses.
const examples = `  0 3 * * * leaderrun --store redis://HOST:6379/0 --key nightly -- /opt/job.sh
            the same crontab line on every host: one runs the job
  0 3 * * * leaderrun --store redis://HOST:6379/0 --key nightly --once-per '0 3 * * *'
            --wait 1h -- /opt/job.sh         if it fails, another host runs it
  leaderrun --store redis://HOST:6379/0 --key queue --wait forever -- /opt/consumer
            a service that must run once: the others stand by and take over
  leaderrun --store file:/var/lib/leaderrun --key backup -- /opt/backup      one host
`

// statuses are all exit statuses; a test compares them.
const statuses = `  0    skipped: another leads, tick served, key paused, not eligible; -E N makes that N
  1    of a verb only: the answer is no (leaderrun VERB --help)
  69   the store is away or refuses; nothing ran
  75   --wait ran out; nothing ran; -E N makes that N, --once-per and --tick 0
  76   the lease was lost or expired; the command was stopped, its result is void
  124  --max-runtime was over; the command was stopped
  125  usage, configuration, or leaderrun itself failed
  126  the command cannot be executed
  127  the command was not found
`

const commandStatus = "the command's own, 128+n if signal n ended it, or"

const environment = `--skip-exit-code is also LEADERRUN_SKIP_EXIT_CODE, and so on. A flag wins over the
variable, and that over the file. If no store is named there, variables of Redis name it:
MUTEX_REDIS_HOST, _PORT, _USERNAME, _PASSWORD, _DB, _PREFIX, _SENTINEL_HOST,
_SENTINEL_PORT, _SENTINEL_NAME, each of which falls back to REDIS_HOST and so on; else
REDIS_URL. An empty setting is an error. COMMAND gets LEADERRUN_KEY, _HOLDER, _TOKEN,
which grows with every leader, and _LEASE_FILE for check.
`

// fullHelp is the text of --help --all. The flags are generated.
func fullHelp() string {
	return purpose + "\n\n" + usage + "\n" + examples + "\n" + settings.FlagHelp() + `
Exit status: ` + commandStatus + "\n" + statuses + "\nEnvironment:\n" + environment
}

func helpCommand(ofVerb func(name string) error) *cobra.Command {
	command := &cobra.Command{
		Use:   "help [VERB]",
		Short: "Show the flags of a run and its exit statuses, or those of a verb",
		Long:  "Show the common flags of a run and its exit statuses, with --all all of them, or those of a verb.",
	}
	all := command.Flags().Bool("all", false, "show all flags, statuses and variables")
	command.RunE = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return ofVerb(strings.Join(args, " "))
		case *all:
			return writeAnswer(fullHelp())
		}
		return writeAnswer(help())
	}
	return command
}
