package cmd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/doctor"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/run"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func doctorCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find out whether runs can work here, and what to do if not",
		Long: `Find out whether runs can work here: it tries the settings, the store with its rights and setup, and this host. It leads
for a moment under the key leaderrun-doctor, which it forgets, and changes nothing else. Run it as the user of
the runs, with their settings.

Exit status: 0, or 1 if something is bad. A warning leaves it 0.`,
		Example: "  leaderrun doctor --store redis://db:6379/0\n  sudo -u USER env -i /usr/bin/leaderrun doctor",
		Args:    noArguments,
	}
	flags := addFlags(command, append(storeFlags, "ttl", "renew", "profile", "kill-after", "once-per", "tick", "eligible")...)
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		findings := diagnose(flags)
		err := output.print(report.FindingsOf(findings), func(b *bytes.Buffer) { report.WriteTable(b, findingRows(findings)) })
		bad := slices.ContainsFunc(findings, func(f lease.Finding) bool { return f.Verdict == lease.Bad })
		return yesOrNo(!bad, err)
	}
	return command
}

func findingRows(findings []lease.Finding) [][]string {
	rows := make([][]string, 0, len(findings))
	for _, f := range findings {
		text := f.Text
		if f.Hint != "" {
			text += "; " + f.Hint
		}
		rows = append(rows, []string{string(f.Verdict), f.Subject, text})
	}
	return rows
}

// broken turns an error into a finding, with its hint.
func broken(subject string, err error) lease.Finding {
	return lease.Failed(subject, err.Error(), hintOf(err))
}

func diagnose(flags verbFlags) []lease.Finding {
	c, s, err := flags.readStore()
	if err == nil {
		err = s.CheckZone(&c)
	}
	if err != nil {
		return append([]lease.Finding{broken("settings", err)}, examineHost(c)...)
	}
	findings := slices.Concat(examineSettings(c, s), examineStore(c), examineEligible(c), examineHost(c))
	for i := range findings {
		findings[i].Hint = c.Told.Hint(findings[i].Hint)
	}
	return findings
}

func examineStore(c settings.Config) []lease.Finding {
	store, err := run.OpenExisting(c, newLogger(os.Stderr, c))
	if err != nil {
		return []lease.Finding{broken("store", openError(c, err))}
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*run.StoreTimeout)
	defer cancel()
	return append(doctor.Examine(ctx, store, run.NewHolder(), elect.NewTiming(c.TTL, c.Renew, c.KillAfter)), examineTick(ctx, store, c)...)
}

// examineTick says which tick a run would have now, by the store's clock. It says nothing
// if the store does not answer: examineStore has reported that.
func examineTick(ctx context.Context, store lease.Admin, c settings.Config) []lease.Finding {
	s, err := store.Inspect(ctx, doctor.Key)
	if err != nil || !c.HasTicks() {
		return nil
	}
	tick := lease.Tick{At: s.Now, Period: c.OncePer}
	if at := run.TickAt(c); at != nil {
		tick = at(s.Now)
	}
	text := "a run that came now would be for the tick of " + lease.Instant(tick.At)
	switch {
	case tick.Until != 0:
		text += ", one that comes from " + lease.Instant(tick.Until) + " on for the next"
	case c.OncePer != 0:
		text += ", which is served by a success for one of the " + lease.Span(c.OncePer/2) + " before"
	}
	return []lease.Finding{lease.Passed("tick", text)}
}

func examineEligible(c settings.Config) []lease.Finding {
	if len(c.Eligible) == 0 {
		return nil
	}
	f := lease.Passed("eligible", "this host may lead")
	if err := run.CheckEligible(&c); err != nil {
		f = broken("eligible", err)
	} else if err := run.Eligible(context.Background(), c); errors.Is(err, elect.ErrUnchecked) {
		f = lease.Failed("eligible", err.Error(), observe.UncheckedHint)
	} else if err != nil {
		f = lease.Warned("eligible", err.Error(), "it asks for no lease until that succeeds")
	}
	return []lease.Finding{f}
}

func examineHost(c settings.Config) []lease.Finding {
	self, err := os.Executable()
	if err != nil { // it is read from /proc, which guards need, too
		return []lease.Finding{broken("guard", runner.ErrNoProc)}
	}
	guard := lease.Passed("guard", "it starts a command and sees its tree end")
	if err := doctor.Guard(self, "check"); err != nil { // without a lease check prints nothing and exits with 1
		guard = broken("guard", err)
	}
	const mounted, membership = "/sys/fs/cgroup", "/proc/self/cgroup"
	return slices.Concat([]lease.Finding{guard}, doctor.Tasks(mounted, membership), doctor.Processor(mounted, membership, c.TTL),
		doctor.Children("/proc/thread-self/children", c.TTL), doctor.Path(self))
}

// examineSettings lists the settings that were given and their sources.
func examineSettings(c settings.Config, s *settings.Sources) []lease.Finding {
	findings := []lease.Finding{lease.Passed("settings", "no file of settings")}
	if s.File != "" {
		findings[0].Text = "file " + s.File
	}
	for _, v := range s.Views(c) {
		if v.From != "default" && v.Name != "config" {
			findings = append(findings, lease.Passed(v.Name, v.Value+" from "+v.From))
		}
	}
	if c.StoreSource == "" {
		findings = append(findings, lease.Warned("store", "none is named: Redis on THIS host is used, and other hosts are not excluded", nameStore()))
	}
	if c.TTL < settings.ShortTTL {
		findings = append(findings, lease.Warned("ttl", lease.FormatDuration(c.TTL)+shortTTL, longerTTL))
	}
	return findings
}
