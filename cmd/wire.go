package cmd

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/store/file"
	"github.com/leaderrun/leaderrun/internal/store/postgres"
	"github.com/leaderrun/leaderrun/internal/store/redis"
)

// run builds what a run needs, the only place that knows the concrete types,
// and runs it. An error means that the store's address is no good.
func run(c config.Config, log *slog.Logger, line *observe.Line) (campaign.Result, error) {
	store, err := openStore(c, log)
	if err != nil {
		return campaign.Result{}, err
	}
	defer func() { _ = store.Close() }()
	commands := runner.New(c.Path, c.Command)
	defer commands.Close()
	if c.Wait > 0 { // a candidate that does not stand by is likely to be skipped
		commands.Prepare() // first: the guard gets ready while the store is asked
	}
	signals := listen(runner.HasTerminal())
	told, finish := telling(c, log.With(observe.KeyAttr, c.Key), line, commands, signals.received)
	defer finish()
	file := &leaseFile{log: log.With(observe.KeyAttr, c.Key), dirs: leasefile.Dirs()}
	defer file.close()

	result := campaign.Run(context.Background(), campaign.Settings{
		Settings:  rules(c),
		Now:       runner.Now,
		Request:   lease.Request{Key: c.Key, TTL: c.TTL, MinHold: c.MinHold, Period: c.OncePer, Tries: c.Tries, Meta: meta(c)},
		NewHolder: newHolder,
		Signals:   signals.received,
	}, store, process{commands, c, signals, file}, append(sinks{file}, told...))
	return result, nil
}

// store is what every technology offers.
type store interface {
	lease.Store
	lease.Operator
}

// openStore makes the store of the address's scheme. Nothing is asked yet.
func openStore(c config.Config, log *slog.Logger) (store, error) {
	if dir, ok := strings.CutPrefix(c.Store, "file:"); ok {
		return file.Open(dir)
	}
	if strings.HasPrefix(c.Store, "postgres://") || strings.HasPrefix(c.Store, "postgresql://") {
		return postgres.New(postgres.Options{URL: c.Store, Prefix: c.Prefix})
	}
	if scheme, _, ok := strings.Cut(c.Store, "://"); ok && slices.Contains(redis.Schemes, scheme) {
		store, err := redis.New(redis.Options{URL: c.Store, Prefix: c.Prefix})
		if err == nil && store.Insecure() {
			log.Warn("insecure=true: whoever is on the way to the store can pose as it",
				observe.EventAdvice, observe.CureAttr, "give the file of the CA's certificate with ca=FILE instead")
		}
		return store, err
	}
	return nil, &config.Error{
		Problem: "the store's address must begin with " + strings.Join(redis.Schemes, "://, ") + "://, postgres:// or file:",
		Cure:    "write redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], postgres://USER:PASSWORD@HOST/DATABASE, or file:/DIR for this host alone",
	}
}

func rules(c config.Config) elect.Settings {
	return elect.Settings{
		Timing:           elect.NewTiming(c.TTL, c.Renew, c.KillAfter),
		Retry:            c.Retry,
		Wait:             c.Wait,
		KillAfter:        c.KillAfter,
		LostGrace:        c.LostGrace,
		StopSignal:       int(c.Signal),
		StopSignalNamed:  c.SignalNamed,
		StopOnRenewError: c.StopOnRenewError,
		Leftovers:        leftovers(c.Leftovers),
		MaxRuntime:       c.MaxRuntime,
		Rejoin:           c.Rejoin,
		OncePer:          c.OncePer > 0,
	}
}

func leftovers(l config.Leftovers) elect.Leftovers {
	switch l {
	case config.Wait:
		return elect.LeftoversWait
	case config.Leave:
		return elect.LeftoversLeave
	}
	return elect.LeftoversStop
}

func newHolder() lease.Holder {
	host, _ := os.Hostname() // the random part of the id tells hosts without a name apart
	return lease.NewHolder(host, os.Getpid())
}

// meta tells whoever looks at the lease what runs under it; not the arguments,
// which may hold secrets.
func meta(c config.Config) string {
	text, err := json.Marshal(map[string]string{"command": c.Command[0]})
	const most = 4096
	if err != nil || len(text) > most {
		return "{}"
	}
	return string(text)
}

// process is the command as a campaign sees it.
type process struct {
	*runner.Runner
	config  config.Config
	signals *listener
	file    *leaseFile
}

func (p process) Start(killBy time.Duration, l lease.Lease, tell func(elect.Event)) {
	p.signals.beforeStart()
	p.Runner.Start(killBy, environment(os.Environ(), p.config.Key, l, p.file.path()), func(r runner.Report) {
		switch r.Kind {
		case runner.Started:
			if !p.config.Rejoin { // the next command needs them, too
				runner.LetGo()
			}
			tell(elect.Event{Kind: elect.Started})
		case runner.Failed:
			tell(elect.Event{Kind: elect.StartFailed, Err: r.Err})
		case runner.Stopped:
			switch r.Signal {
			case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU: // the shell waits for leaderrun to stop
				runner.StopSelf()
			}
		case runner.Ended:
			tell(elect.Event{Kind: elect.CommandEnded, Exit: exit(r), Left: r.Left})
		case runner.Gone:
			tell(elect.Event{Kind: elect.TreeGone, Exit: exit(r), Err: r.Err})
		}
	})
}

func exit(r runner.Report) elect.Exit {
	switch {
	case r.Err != nil:
		return elect.Exit{}
	case r.Status.Signaled():
		return elect.Exit{Signal: int(r.Status.Signal())}
	}
	return elect.Exit{Code: r.Status.ExitStatus()}
}
