// Package run builds one run from its settings (store, guard, signals, observers, hooks
// and the lease file) and lets package campaign run it. It guarantees that the observers
// are finished before Run returns, and that an observer that hangs delays the end by
// seconds at most and does not change the result.
//
// It does not read the settings (package settings), and it does not word the result or
// choose the exit status (package cmd). Only cmd may import it.
package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// Run runs the command while leader. It returns an error if the store's address cannot
// be used.
func Run(c settings.Config, log *slog.Logger, line *observe.Line, status Status) (elect.State, error) {
	store, err := open(c, log, false)
	if err != nil {
		return elect.State{}, err
	}
	defer func() { _ = store.Close() }()
	var leases lease.Store = store
	if c.Slots > 1 {
		leases = slots.New(store, c.Key, c.Slots, runner.Now)
	}
	commands := runner.New(c.Path, c.Command)
	defer commands.Close()
	if c.Wait > 0 { // a candidate that does not wait is likely to be skipped, and needs no guard
		commands.Prepare() // first: the guard gets ready while the store is asked
	}
	signals := listen(runner.HasTerminal(), commands.Holds)
	log = log.With(observe.KeyAttr, c.Key)
	watching, finish := newObservers(c, log, line, commands, signals.received, status)
	defer finish()
	file := &leaseFile{log: log, dirs: leasefile.Dirs()}
	defer file.close()

	result := campaign.Run(context.Background(), campaign.Settings{
		Settings:  electSettings(c),
		Now:       runner.Now,
		Request:   lease.Request{Key: c.Key, TTL: c.TTL, MinHold: c.MinHold, Period: c.OncePer, Exact: c.ExactTicks(), Tries: c.Tries, Recent: c.Recent(), Meta: meta(c)},
		TickAt:    TickAt(c),
		WallNow:   time.Now, //nolint:forbidigo // the store compares it with its own
		Check:     newCheck(c, commands),
		NewHolder: NewHolder,
		Signals:   signals.received,
		ClockSet:  runner.WallClockSet(),
	}, leases, process{commands, c, log, signals, file}, append(observers{file}, watching...))
	return result, nil
}

func electSettings(c settings.Config) elect.Settings {
	return elect.Settings{
		Timing:           elect.NewTiming(c.TTL, c.Renew, c.KillAfter),
		Retry:            c.Retry,
		Wait:             c.Wait,
		KillAfter:        c.KillAfter,
		LostGrace:        c.LostGrace,
		StopSignal:       int(c.Signal),
		StopSignalNamed:  c.SignalNamed,
		StopOnRenewError: c.StopOnRenewError,
		Leftovers:        c.Leftovers,
		MaxRuntime:       c.MaxRuntime,
		Rejoin:           c.Rejoin,
		Checked:          len(c.Eligible) > 0,
		OncePer:          c.HasTicks() || c.Recent() > 0,
	}
}

// TickAt returns the function from the store's time at a run's first answer to the run's
// tick; nil if that time is the tick.
func TickAt(c settings.Config) func(now int64) lease.Tick {
	switch {
	case c.Tick == 0 && c.Schedule == nil:
		return nil
	case c.Tick == 0:
		return c.Schedule.Tick
	}
	named := lease.Tick{At: c.Tick, Period: c.OncePer}
	if c.Schedule != nil {
		named = c.Schedule.Tick(c.Tick)
		named.From, named.Until = 0, 0 // at any time
	}
	return func(int64) lease.Tick { return named }
}

// NewHolder returns a new holder id for this host.
func NewHolder() lease.Holder {
	host, _ := os.Hostname() // the random part of the id tells hosts without a name apart
	return lease.NewHolder(host, os.Getpid())
}

// meta describes the command in the store, without its arguments, which may contain
// secrets.
func meta(c settings.Config) string {
	text, err := json.Marshal(map[string]string{"command": c.Command[0]})
	if err != nil || len(text) > lease.MaxMeta {
		return "{}"
	}
	return string(text)
}

// process implements campaign.Process with a runner.
type process struct {
	*runner.Runner
	config  settings.Config
	log     *slog.Logger
	signals *listener
	file    *leaseFile
}

func (p process) Start(startBy, killBy time.Duration, l lease.Lease, report func(elect.Event)) {
	p.signals.beforeStart()
	env := environment(os.Environ(), l.Key, l, p.file.path())
	if p.config.Slots > 1 {
		env = append(env, settings.SlotVariable+"="+strconv.Itoa(slots.Of(p.config.Key, l.Key, p.config.Slots)))
	}
	p.Runner.Start(startBy, killBy, env, forEnder(p.config, l, p.file.path()), func(r runner.Report) { p.report(r, report) })
}

// report translates the runner's reports into events.
func (p process) report(r runner.Report, to func(elect.Event)) {
	switch r.Kind {
	case runner.Started:
		if !p.config.Rejoin { // the next command needs them, too
			runner.LetGo()
		}
		to(elect.Event{Kind: elect.Started})
	case runner.Failed:
		to(elect.Event{Kind: elect.StartFailed, Err: r.Err})
	case runner.Ended:
		to(elect.Event{Kind: elect.CommandEnded, Exit: exit(r), Left: r.Left})
	case runner.Unkillable:
		p.log.Warn("SIGKILL has no effect yet: "+r.Left, observe.EventKilling, observe.HintAttr,
			"leaderrun goes on killing, and holds the lease while it can; as root, find out what the process does")
	case runner.Gone:
		to(elect.Event{Kind: elect.TreeGone, Exit: exit(r), Expired: r.Expired, Err: r.Err})
	}
}

func exit(r runner.Report) candidate.Exit {
	if r.Status.Signaled() {
		return candidate.Exit{Signal: int(r.Status.Signal())}
	}
	return candidate.Exit{Code: r.Status.ExitStatus()}
}
