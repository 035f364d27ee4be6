package cmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// pauseFlags are what pause was called with.
type pauseFlags struct {
	duration, until, reason string
	handOver                bool
}

func pauseCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "pause --key NAME --for D|--until TIME [--reason TEXT] [--hand-over]",
		Short: "Start no command under a key for a while, on any host",
		Long: `Start no command under a key for a while, on any host. The pause is kept in the store. It ends after --for, at --until,
or by leaderrun resume, and after 90 days at the latest. Meanwhile a run is skipped in silence and ends with 0, or with
the status of -E. A run with --wait stands by. A command that runs already goes on; with --hand-over its leader stops it.

Exit status: 0 the key is paused; 69 the store is away, what was done is printed.`,
		Example: "  leaderrun pause --key nightly --for 2h --reason 'database upgrade'\n  leaderrun pause --key nightly --until 2026-12-01T06:00:00Z --hand-over",
		Args:    noArguments,
	}
	flags := addFlags(command, append(storeFlags, "key")...)
	var p pauseFlags
	command.Flags().StringVar(&p.duration, "for", "", "pause for `D`, 2160h (90 days) at most")
	command.Flags().StringVar(&p.until, "until", "", "pause until `TIME`, such as 2026-12-01T06:00:00Z")
	command.Flags().StringVar(&p.reason, "reason", "", "say why: status, why and history show `TEXT`")
	command.Flags().BoolVar(&p.handOver, "hand-over", false, "also ask the leader to stop its command")
	command.RunE = func(*cobra.Command, []string) error {
		if err := p.check(); err != nil {
			return err
		}
		return flags.ask(func(ctx context.Context, store lease.Admin, key string) error {
			return pause(ctx, store, key, p)
		})
	}
	return command
}

// check finds the errors that need no store.
func (p pauseFlags) check() error {
	const longest = 200
	_, err := p.length(time.Now().UnixMilli()) //nolint:forbidigo // a first look; by the store's clock it is asked once more
	for _, r := range p.reason {
		if !unicode.IsPrint(r) {
			return &settings.Error{Setting: "reason", Problem: "the character " + strconv.QuoteRune(r) + " is not allowed", Hint: "write one line of printable characters"}
		}
	}
	if n := utf8.RuneCountInString(p.reason); n > longest {
		return &settings.Error{Setting: "reason", Problem: fmt.Sprintf("%d characters are too long", n), Hint: fmt.Sprintf("use %d at most", longest)}
	}
	return err
}

// length returns how long the pause lasts. now is the store's time.
func (p pauseFlags) length(now int64) (time.Duration, error) {
	name, value := "for", p.duration
	var d time.Duration
	var err error
	switch {
	case p.duration != "" && p.until != "":
		return 0, &settings.Error{Setting: "until", Value: p.until, Problem: "--for says another end", Hint: "give one of them"}
	case p.duration != "":
		if d, err = settings.Duration("for", p.duration); err != nil {
			return 0, err
		}
	case p.until != "":
		name, value = "until", p.until
		end, err := time.Parse(time.RFC3339, p.until)
		if err != nil {
			return 0, &settings.Error{Setting: name, Value: value, Problem: "is no time", Hint: "write it like 2026-12-01T06:00:00Z or 2026-12-01T06:00:00+01:00; date --iso-8601=seconds shows it now"}
		}
		d = end.Sub(time.UnixMilli(now))
	default:
		return 0, &settings.Error{Problem: "no end: --for or --until is missing", Hint: "a pause must end by itself: --for 2h, or --until 2026-12-01T06:00:00Z"}
	}
	switch {
	case d < time.Millisecond:
		return 0, &settings.Error{Setting: name, Value: value, Problem: "is over already", Hint: "name an end that lies ahead"}
	case d > lease.MaxPause:
		return 0, &settings.Error{Setting: name, Value: value, Problem: "is more than 90 days from now", Hint: "use 2160h at most, and pause again before it ends"}
	}
	return d, nil
}

func pause(ctx context.Context, store lease.Admin, key string, p pauseFlags) error {
	before, err := store.Inspect(ctx, key)
	if err != nil {
		return err
	}
	d, err := p.length(before.Now) // the store's clock ends the pause
	if err != nil {
		return err
	}
	s, err := store.Pause(ctx, key, d, author(), p.reason)
	if err != nil {
		return err
	}
	text := key + ": " + s.Paused().String()
	if before.Pause != (lease.Pause{}) {
		text += "; it was " + before.Paused().String()
	}
	if s.Why == lease.Held && p.handOver {
		if s, err = store.HandOver(ctx, key); err != nil {
			return answerLine(text, err) // the key is paused all the same
		}
	}
	switch {
	case s.HandOver:
		text += "; asked " + report.Holder(s) + " to stop its command and hand over"
	case s.Why == lease.Held:
		text += "; " + report.Holder(s) + " goes on"
	}
	return answerLine(text, nil)
}

// author returns user@host of the caller, the user before sudo.
func author() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if os.Getuid() == 0 {
		name = cmp.Or(os.Getenv("SUDO_USER"), name)
	}
	host, _ := os.Hostname()
	return name + "@" + cmp.Or(host, "unknown")
}

func resumeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "resume --key NAME",
		Short: "End a pause",
		Long: `End a pause. A standby takes the lease, and the next run is not skipped.

Exit status: 0 done, 1 the key was not paused, 69 the store is away.`,
		Example: "  leaderrun resume --key nightly",
		Args:    noArguments,
	}
	flags := addFlags(command, append(storeFlags, "key")...)
	command.RunE = func(*cobra.Command, []string) error { return flags.ask(resume) }
	return command
}

func resume(ctx context.Context, store lease.Admin, key string) error {
	s, err := store.Resume(ctx, key)
	if err != nil {
		return err
	}
	if s.Pause == (lease.Pause{}) {
		return answerLine(key+": was not paused: "+s.Condition().String(), errNo)
	}
	return answerLine(key+": resumed; it was "+s.Paused().String(), nil)
}
