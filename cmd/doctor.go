package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
)

func doctorCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "doctor [flags of a run]",
		Short: "Whether runs can work here, and what to do about it if not",
		Long: `Whether runs can work here: the settings, the store, its rights and its setup, this host. It leads for a moment under a
key of its own, leaderrun-doctor, and changes nothing else. Run it as the user of the runs, with the same settings.

Exit status: 0, or 1 if something is bad; what is only doubtful leaves it 0.`,
		Example: "  leaderrun doctor --store redis://db:6379/0\n  sudo -u cron env -i /usr/bin/leaderrun doctor",
		Args:    noArguments,
	}
	a := take(command, append(storeFlags, "ttl", "renew", "profile", "kill-after")...)
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		findings := diagnose(a)
		err := printed(func(b *bytes.Buffer) {
			if *output == asJSON {
				writeJSON(b, findingViews(findings))
				return
			}
			table(b, findingRows(findings))
		})
		if err == nil && slices.ContainsFunc(findings, func(f lease.Finding) bool { return f.Verdict == lease.Bad }) {
			return errNo
		}
		return err
	}
	return command
}

type findingView struct {
	Verdict string `json:"verdict"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Cure    string `json:"cure"`
}

func findingViews(findings []lease.Finding) []findingView {
	views := make([]findingView, 0, len(findings))
	for _, f := range findings {
		views = append(views, findingView{string(f.Verdict), f.Subject, f.Text, f.Cure})
	}
	return views
}

func findingRows(findings []lease.Finding) [][]string {
	rows := make([][]string, 0, len(findings))
	for _, f := range findings {
		text := f.Text
		if f.Cure != "" {
			text += "; " + f.Cure
		}
		rows = append(rows, []string{string(f.Verdict), f.Subject, text})
	}
	return rows
}

// broken is a finding of what does not work.
func broken(subject string, err error) lease.Finding {
	return lease.Finding{Subject: subject, Verdict: lease.Bad, Text: err.Error(), Cure: cureOf(err)}
}

func fine(subject, text string) lease.Finding {
	return lease.Finding{Subject: subject, Verdict: lease.Fine, Text: text}
}

func diagnose(a asked) []lease.Finding {
	c, s, err := a.load()
	if err == nil {
		err = s.locate(checkStore(&c))
	}
	if err != nil {
		return append([]lease.Finding{broken("settings", err)}, examineHost()...)
	}
	findings := examineSettings(c, s)
	if err := checkThere(c); err != nil {
		return append(append(findings, broken("store", err)), examineHost()...)
	}
	store, err := openStore(c, newLogger(os.Stderr, c))
	if err != nil {
		return append(append(findings, broken("store", openError(c, err))), examineHost()...)
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	findings = append(findings, examineStore(ctx, store, c)...)
	return append(findings, examineHost()...)
}

// examineSettings tells what was said, and where.
func examineSettings(c config.Config, s *sources) []lease.Finding {
	findings := []lease.Finding{fine("settings", "no file of settings")}
	if s.file != "" {
		findings[0].Text = "file " + s.file
	}
	for _, v := range settingViews(c, s) {
		if v.From != "default" && v.Name != "config" {
			findings = append(findings, fine(v.Name, v.Value+" from "+v.From))
		}
	}
	if c.StoreSource == "" {
		findings = append(findings, lease.Finding{
			Subject: "store", Verdict: lease.Doubtful, Cure: nameStore(),
			Text: "none is named: Redis on THIS host is used, and other hosts are not excluded",
		})
	}
	if c.TTL < config.ShortTTL {
		findings = append(findings, lease.Finding{
			Subject: "ttl", Verdict: lease.Doubtful, Cure: "use --ttl 3s or more",
			Text: config.Text(c.TTL) + " is short: a brief pause of the store or of this host costs the lease",
		})
	}
	return findings
}

// probe is the key under which the doctor leads. It is always the same, since a
// store may remember it for weeks.
const probe = "leaderrun-doctor"

// examineStore leads for a moment, with every verb that a run needs.
func examineStore(ctx context.Context, store store, c config.Config) []lease.Finding {
	t := elect.NewTiming(c.TTL, c.Renew, c.KillAfter)
	l, err := acquireProbe(ctx, store, c.TTL)
	var held *lease.HeldError
	switch {
	case errors.As(err, &held):
		return []lease.Finding{{
			Subject: "rights", Verdict: lease.Doubtful, Text: "not tried: " + whoLeads(held) + " under the key " + probe,
			Cure: "wait until the other doctor is done, or " + span(held.Remaining),
		}}
	case err != nil:
		return []lease.Finding{broken("store", err)}
	}
	findings := probeVerbs(ctx, store, l, t)
	if examiner, ok := store.(lease.Examiner); ok {
		findings = append(findings, examiner.Examine(ctx, outage(t))...)
	}
	return findings
}

func acquireProbe(ctx context.Context, store lease.Store, ttl time.Duration) (lease.Lease, error) {
	r := lease.Request{Key: probe, Holder: newHolder(), TTL: ttl, Meta: `{"command":"leaderrun doctor"}`}
	for {
		l, err := store.Acquire(ctx, r)
		var settling *lease.SettlingError
		if !errors.As(err, &settling) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return l, err
		case <-time.After(settling.Remaining):
		}
	}
}

// probeVerbs renews, looks, waits and releases: each is a script with rights of
// its own, in a store that has them.
func probeVerbs(ctx context.Context, store store, l lease.Lease, t elect.Timing) []lease.Finding {
	took, err := renewals(ctx, store, l)
	drift, elapsed, clockErr := drift(ctx, store)
	_, handOverErr := store.HandOver(ctx, probe)
	waitErr := store.Wait(ctx, probe, 10*time.Millisecond)
	if errors.Is(waitErr, lease.ErrNoWakeups) {
		waitErr = nil
	}
	var findings []lease.Finding
	for _, err := range []error{err, clockErr, handOverErr, waitErr, store.Pass(ctx, probe), store.Release(ctx, l, lease.Result{})} {
		if err != nil {
			findings = append(findings, broken("rights", err))
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return []lease.Finding{
		fine("rights", "acquire, renew, status, hand over, wait and release work"),
		examineListing(ctx, store), examineLatency(took[len(took)/2], took[len(took)-1], t), examineClock(drift, elapsed, t),
	}
}

// renewals are the times that some of them take, in order.
func renewals(ctx context.Context, store store, l lease.Lease) ([]time.Duration, error) {
	took := make([]time.Duration, 20)
	for i := range took {
		began := runner.Now()
		if _, err := store.Renew(ctx, l); err != nil {
			return nil, err
		}
		took[i] = runner.Now() - began
	}
	slices.Sort(took)
	return took, nil
}

// drift is how many milliseconds the store's clock gains on this host's in
// elapsed.
func drift(ctx context.Context, store store) (gained float64, elapsed time.Duration, err error) {
	began := runner.Now()
	var ahead [2]float64
	for i := range ahead {
		sent := runner.Now()
		s, err := store.Inspect(ctx, probe)
		if err != nil {
			return 0, 0, err
		}
		ahead[i] = float64(s.Now) - float64((sent+runner.Now())/2)/float64(time.Millisecond)
		if i == 0 {
			time.Sleep(clockSpan)
		}
	}
	return ahead[1] - ahead[0], runner.Now() - began, nil
}

func examineListing(ctx context.Context, store lease.Operator) lease.Finding {
	keys, err := store.Keys(ctx)
	if err != nil {
		f := broken("listing", err)
		f.Verdict = lease.Doubtful // of use to people only
		return f
	}
	return fine("listing", fmt.Sprintf("%d keys", len(keys)))
}

func examineLatency(median, worst time.Duration, t elect.Timing) lease.Finding {
	f := fine("latency", fmt.Sprintf("%s in the median, %s at most; a renewal may take %s", median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond), span(t.Attempt)))
	switch {
	case worst > t.Attempt:
		f.Verdict, f.Cure = lease.Bad, "use a longer --ttl, or a store that is nearer"
	case worst > t.Attempt/4:
		f.Verdict, f.Cure = lease.Doubtful, "use a longer --ttl, or find out what is slow between here and the store"
	}
	return f
}

// clockSpan is how long the two clocks are compared: a hundred times the
// millisecond in which stores tell the time is a percent of it.
const clockSpan = time.Second

// examineClock compares the rates of the two clocks: what they show does not
// matter.
func examineClock(drift float64, elapsed time.Duration, t elect.Timing) lease.Finding {
	percent := 100 * math.Max(0, math.Abs(drift)-2) / float64(elapsed.Milliseconds()) // each reading is off by a millisecond
	allowed := 100 * t.Margin.Seconds() / t.TTL.Seconds()
	f := fine("clock", fmt.Sprintf("the store's runs as fast as this host's to within %.1f%%; %.1f%% is allowed", percent, allowed))
	if percent > allowed {
		f.Verdict, f.Text = lease.Bad, fmt.Sprintf("the store's and this host's run apart by %.1f%%; %.1f%% is allowed", percent, allowed)
		f.Cure = "look after the time of both hosts: chrony, or what the virtual machine offers"
	}
	return f
}

// examineHost looks at what a run needs of this host.
func examineHost() []lease.Finding {
	return slices.Concat([]lease.Finding{examineGuard()}, examineTasks("/sys/fs/cgroup", "/proc/self/cgroup"), examinePath(os.Executable()))
}

// tasksNeeded is room for the threads of elector and guard, ten each were seen,
// and a small command.
const tasksNeeded = 32

// examineTasks looks whether the control group, where it is of the second kind,
// has room for the processes of a run.
func examineTasks(mounted, membership string) []lease.Finding {
	text, _ := os.ReadFile(membership)
	group, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "0::")
	if !ok {
		return nil
	}
	most, errMost := numberIn(filepath.Join(mounted, group, "pids.max"))
	now, errNow := numberIn(filepath.Join(mounted, group, "pids.current"))
	if errMost != nil || errNow != nil { // "max" is no number: there is no limit
		return nil
	}
	f := fine("cgroup", fmt.Sprintf("%d of %d tasks in use", now, most))
	if most-now < tasksNeeded {
		f.Verdict, f.Cure = lease.Doubtful, "raise TasksMax= of the unit, or the pids limit of the container"
	}
	return []lease.Finding{f}
}

func numberIn(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// examineGuard runs a command that does nothing under a guard, as a run does.
func examineGuard() lease.Finding {
	const subject = "guard"
	self, err := os.Executable()
	if err != nil {
		return broken(subject, err)
	}
	commands := runner.New(self, []string{self, "check"}) // says nothing, and that no lease is held
	defer commands.Close()
	gone := make(chan error, 1)
	commands.Start(runner.Now()+patience, nil, func(r runner.Report) {
		if r.Kind == runner.Failed || r.Kind == runner.Gone {
			gone <- r.Err
		}
	})
	if err := <-gone; err != nil {
		return broken(subject, err)
	}
	return fine(subject, "it starts a command and sees its tree end")
}

// cronPath is what cron gives its commands on most systems: crontab(5).
var cronPath = []string{"/usr/bin", "/bin"}

func examinePath(self string, err error) []lease.Finding {
	if err != nil || slices.Contains(cronPath, filepath.Dir(self)) {
		return nil
	}
	return []lease.Finding{{
		Subject: "path", Verdict: lease.Doubtful, Text: "cron does not look for commands in " + filepath.Dir(self),
		Cure: "write " + self + " in crontabs",
	}}
}
