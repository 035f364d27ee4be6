package cmd

import (
	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/config"
)

const usage = `usage: leaderrun [flags] [--] COMMAND [ARG...]
       leaderrun status | history | release | check | doctor | config | explain [flags]
       leaderrun help | version | man | completion | install
`

// help is written by hand and held against the flags and the statuses by tests.
const help = `leaderrun runs a command only while this host is the leader.

` + usage + `
  0 3 * * * leaderrun --store redis://HOST:6379/0 --key nightly --once-per 24h --wait 1h
            -- /opt/job.sh     the same crontab line on every host: one runs the job
  leaderrun --store redis://HOST:6379/0 --key queue --wait forever -- /opt/consumer
            a service that must run once: the others stand by and take over
  leaderrun --store file:/var/lib/leaderrun --key backup -- /opt/backup      one host

The lease (D is a duration with a unit: 500ms, 30s, 24h)
      --key NAME             what only one may run at a time: [A-Za-z0-9._:/-]{1,200}
      --store URL            redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], rediss:, unix:,
                             redis-sentinel:, redis-cluster:, postgres: or file:/DIR
                             (default redis://127.0.0.1:6379/0); PASSWORD may be file:PATH
      --prefix NAME          the key in Redis is NAME:leader:KEY (default leaderrun)
      --ttl D, --renew D     life of a lease and renewal interval (default 30s, ttl/3)
      --profile NAME         fast, normal or unreliable: a TTL of 15s, 30s or 90s
      --on-renew-error WHAT  retry, or stop at the first failed renewal (default retry)
If somebody else leads
  -w, --wait D               stand by for D, or forever; -n is --wait 0 (default 0)
      --retry D              pause between attempts, if nothing wakes it (default ttl/6)
  -E, --skip-exit-code N     the exit status then (default 0)
      --rejoin               after a lost or expired lease stand by again, for ever
The same crontab line on every host
      --once-per D           one successful run per tick, ticks being D apart: with --wait
                             the others run it if it fails
      --tries N              at most N starts per tick (default 2)
      --min-hold D           keep the lease for D from the start, also after a quick job
Stopping the command
  -s, --signal SIGNAL        first signal (default TERM, or the one leaderrun was sent)
  -k, --kill-after D         time from there to SIGKILL, 0: at once (default 10s)
      --lost-grace D         the same when the lease is somebody else's (default 1s)
      --max-runtime D        stop it after D, with status 124 (default never)
      --leftovers WHAT       descendants that outlive it: stop, wait for, or leave them
                             alive without any promise (default stop)
Telling
      --outcome-file FILE    write how it ended, as JSON
      --metrics-textfile DIR, --metrics-listen [HOST]:PORT       metrics for Prometheus
      --on-acquire CMD, --on-lost CMD, --on-skip CMD    run for 10s at most, by no shell
  -v, --verbose, -q, --quiet every step on stderr, or errors only; --log-format json
      --config FILE          settings (default /etc/leaderrun/leaderrun.yaml, then yours)

Exit status: the command's own, 128+n if signal n ended it, or
  0    somebody else leads, or the tick is served; -E N makes that N
  1    of a verb only: what it was asked is not so (leaderrun VERB --help)
  69   the store is away or refuses; nothing ran
  75   --wait ran out; nothing ran; -E N makes that N, --once-per 0
  76   the lease was lost or expired; the command was stopped, its result is void
  124  --max-runtime was over; the command was stopped
  125  usage, configuration, or leaderrun itself failed
  126  the command cannot be executed
  127  the command was not found

Environment: --skip-exit-code is also LEADERRUN_SKIP_EXIT_CODE, and so on. A flag wins
over a variable, that over the file, that over one set of Redis variables: MUTEX_REDIS_
HOST, PORT, USERNAME, PASSWORD, DB, PREFIX; else REDIS_URL; else the same with REDIS_.
An empty value is an error. COMMAND gets LEADERRUN_KEY, LEADERRUN_HOLDER,
LEADERRUN_TOKEN, which grows with every leader, and LEADERRUN_LEASE_FILE for check.
`

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "The flags of a run and its exit statuses, or those of a verb",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return printed(help)
			}
			about := verbs()[args[0]]
			if about == nil || len(args) > 1 {
				return &config.Error{Problem: "no such verb", Cure: "leaderrun help lists the verbs"}
			}
			return execute(tool(about()), []string{args[0], "--help"})
		},
	}
}
