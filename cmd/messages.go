package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Messages go to stderr, since stdout belongs to the command. The first line begins
// with "leaderrun: ", in lower case and without a full stop; the second, if any, says
// what to do. A run that succeeds or is skipped prints nothing, so cron sends no mail.

// newLogger returns a log with the level and the format of the settings.
func newLogger(w io.Writer, c settings.Config) *slog.Logger { return logger(w, c, false) }

// runLogger returns the log of a run. It may be read hours later, in mail or in a file.
func runLogger(w io.Writer, c settings.Config) *slog.Logger {
	return logger(w, c, !isTerminal(os.Stderr))
}

func logger(w io.Writer, c settings.Config, dated bool) *slog.Logger {
	level := []slog.Level{slog.LevelWarn, slog.LevelInfo, slog.LevelDebug}[c.Verbose]
	if c.Quiet {
		level = slog.LevelError
	}
	return observe.NewLogger(w, level, observe.Form{JSON: c.JSONLog, Journal: observe.ToJournal(), Dated: dated, Hint: c.Told.Hint})
}

func fail(log *slog.Logger, err error) {
	log.Error(err.Error(), about(observe.EventRefused, err)...)
}

// about returns the attributes of a record about an error: its event and its hint.
func about(event slog.Attr, err error) []any {
	if hint := hintOf(err); hint != "" {
		return []any{event, observe.HintAttr, hint}
	}
	return []any{event}
}

// hintOf says what to do about an error; "" if that is not known.
func hintOf(err error) string {
	var setting *settings.Error
	var address *location.Error
	var store *lease.StoreError
	var reworded *verbError
	switch {
	case errors.As(err, &reworded):
		return reworded.told.Hint(hintOf(reworded.err))
	case errors.As(err, &setting) && setting.Hint != "":
		return setting.Hint
	case errors.As(err, &address):
		return address.Hint
	case errors.As(err, &store):
		return strings.TrimPrefix(store.Hint+unknownOutcome(store), "; ")
	}
	for _, s := range shortages {
		if errors.Is(err, s.err) {
			return s.hint
		}
	}
	return ""
}

// unknownOutcome returns the hint for an operator's change that may or may not have been made.
// Repeating it could hit the next leader.
func unknownOutcome(err *lease.StoreError) string {
	changes := []string{"hand over", "revoke", "pause", "resume", "forget"}
	if err.Refused || err.Permanent || !slices.Contains(changes, err.Op) {
		return ""
	}
	return "; it may have been done all the same: look at leaderrun status before you repeat it"
}

// warnAbout warns of settings that are allowed but probably not meant.
func warnAbout(log *slog.Logger, c settings.Config) {
	if c.StoreSource == "" {
		log.Warn("no store named: using Redis on THIS host; other hosts are not excluded",
			observe.EventAdvice, observe.HintAttr, nameStore())
	}
	if c.TTL < settings.ShortTTL {
		log.Warn("a TTL of "+lease.FormatDuration(c.TTL)+shortTTL, observe.EventAdvice, observe.HintAttr, longerTTL)
	}
}

// shortTTL follows a TTL below settings.ShortTTL; longerTTL is its hint.
const (
	shortTTL  = " is short: a brief pause of the store or of this host costs the lease"
	longerTTL = "use --ttl 3s or more"
)

func nameStore() string {
	return "name it with --store redis://HOST:6379/0, LEADERRUN_STORE or store: in " + settings.Files()[0]
}

// explainOutcome says why a run ended, unless it went as it should.
func explainOutcome(log *slog.Logger, c settings.Config, r elect.State) {
	key := cmp.Or(r.Lease.Key, c.Key) // with --slots that of its slot
	log = log.With(observe.KeyAttr, key, "outcome", string(r.Outcome))
	void := ", the command was stopped, its result is void"
	if !r.Ran {
		void = " before the command had started"
	}
	why := reason(r.Err)
	if r.Denial.Why != "" {
		why = r.Denial.String()
	}
	switch {
	case r.Outcome == candidate.Lost && errors.Is(r.Err, lease.ErrRevoked):
		log.Error("an operator took the lease away"+void,
			observe.EventVoid, observe.HintAttr, "somebody used leaderrun release --force; leaderrun status --key "+key+" shows who leads")
	case r.Outcome == candidate.Lost:
		log.Error("lease lost"+void+": "+why, observe.EventVoid, observe.HintAttr, observe.LostHint)
	case r.Outcome == candidate.Expired:
		log.Error("lease expired"+void+": "+why, about(observe.EventVoid, r.Err)...)
	case r.Outcome == candidate.Unavailable:
		log.Error("nothing ran: "+why, about(observe.EventOf(r.Outcome), r.Err)...)
	case r.Outcome == candidate.Unchecked:
		log.Error("nothing ran: "+why, observe.EventOf(r.Outcome), observe.HintAttr, observe.UncheckedHint)
	case r.Outcome == candidate.NotStarted:
		explainStart(log, c.Command[0], r.Err)
	case r.Outcome == candidate.GuardDied:
		log.Error("the command was killed: "+why,
			observe.EventOf(r.Outcome), observe.HintAttr, "find out who killed it: a person, or the kernel for lack of memory")
	case r.Outcome == candidate.MaxRuntime:
		log.Error(fmt.Sprintf("the command ran longer than --max-runtime %s and was stopped", lease.FormatDuration(c.MaxRuntime)), observe.EventOf(r.Outcome))
	case ranOut(r, c):
		log.Error(fmt.Sprintf("nothing ran: --wait %s ran out, %s", lease.FormatDuration(c.Wait), why),
			observe.EventWaitRanOut, observe.HintAttr, "wait longer, or choose the status of this case with -E")
	case r.Outcome.Skips():
		log.Log(context.Background(), skipLevel(), "nothing ran: "+why, observe.EventOf(r.Outcome))
	}
}

// skipLevel is the log level of a skip: shown on a terminal, but not under cron, which
// would send mail.
func skipLevel() slog.Level {
	if isTerminal(os.Stderr) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func explainStart(log *slog.Logger, name string, err error) {
	shown := settings.Redact(name)
	switch notStarted(err) {
	case exitNotFound:
		hint := "check its path and, for a script, the interpreter in its first line"
		variable, _, isAssignment := strings.Cut(name, "=")
		switch {
		case isAssignment && !strings.ContainsAny(variable, "/ "): // the value may be a password
			shown = variable + "=…"
			hint = "no shell reads it: set a variable with env, as in -- env NAME=VALUE COMMAND"
		case strings.Contains(name, " "):
			hint = "no shell reads it: write its arguments as words of their own, or sh -c 'COMMAND ARG'"
		case !strings.Contains(name, "/"):
			hint = "give its full path: the PATH of cron and of services is short"
		}
		log.Error(fmt.Sprintf("command not found: %q", shown), observe.EventOf(candidate.NotStarted), observe.HintAttr, hint)
	case exitCannotExecute:
		hint := "it must be an executable file: chmod +x, #! in a script's first line, no noexec on its file system"
		switch {
		case errors.Is(err, syscall.ETXTBSY):
			hint = "somebody has it open for writing: run it once it is complete"
		case errors.Is(err, syscall.E2BIG):
			hint = "its arguments and environment are too long together: give it some in a file"
		}
		log.Error(fmt.Sprintf("cannot execute %q: %s", shown, settings.Cause(err)), observe.EventOf(candidate.NotStarted), observe.HintAttr, hint)
	default:
		log.Error("nothing ran: "+notStartable(shown, err), about(observe.EventOf(candidate.NotStarted), err)...)
	}
}

// notStartable says why the system could not start the command.
func notStartable(shown string, err error) string {
	switch {
	case errors.Is(err, runner.ErrGuard):
		return err.Error()
	case errors.Is(err, syscall.ETIMEDOUT): // the guard looked at the clock before it started the command
		return "the lease ran out before the start: leaderrun itself was stopped, starved, or asleep with the machine"
	}
	return fmt.Sprintf("cannot start %q: %s", shown, reason(err))
}

// shortages are resources that the system may lack when it cannot start a process.
var shortages = []struct {
	err  error
	hint string
}{
	{runner.ErrFewProcesses, "raise the limit of processes: ulimit -u, or LimitNPROC= of a systemd unit"},
	{runner.ErrFewFiles, "raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit"},
	{runner.ErrNoProc, "mount the /proc of this process namespace: mount -t proc proc /proc"},
	{runner.ErrUnkillable, "add KILL to the capabilities, drop SETUID, or change the user before leaderrun (gosu USER leaderrun …)"},
	{runner.ErrRefused, "raise the limits of pending signals (ulimit -i) and of open files (ulimit -n); a seccomp filter must allow kill, ppoll, prctl, wait4, waitid and timers"},
	{syscall.EMFILE, "raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit"},
	{syscall.ENFILE, "this host has no open files left: find out who holds them, or raise fs.file-max"},
	{syscall.EAGAIN, "raise the limit of processes (ulimit -u, TasksMax= of a systemd unit, the pids limit of a container) or of pending signals (ulimit -i)"},
	{syscall.ENOMEM, "free memory, or raise the memory limit of the unit or container"},
}

func reason(err error) string {
	if err == nil {
		return "no reason known"
	}
	return err.Error()
}

// watched returns a function that reports whether a standby shows its state in one line that it
// rewrites: no other output was asked for, and somebody looks at stderr.
func watched(c settings.Config) func() bool {
	wanted := !c.Quiet && c.Verbose == 0 && !c.JSONLog && rewrites(os.Stderr)
	return func() bool { return wanted && observe.InForeground(os.Stderr) }
}

// rewrites reports whether a line on f can be overwritten.
func rewrites(f *os.File) bool {
	return isTerminal(f) && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}

// isTerminal reports whether f is a terminal, or another character device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// flagError words pflag's errors. It shows no values: one of them may be an address
// with a password.
func flagError(flags *pflag.FlagSet, err error, verbs []string) error {
	hint := "leaderrun --help --all lists the flags; those of the command belong after it"
	if slices.Contains(verbs, flags.Name()) {
		hint = "leaderrun " + flags.Name() + " --help lists its flags"
	}
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var known *settings.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return &settings.Error{Problem: "unknown flag -" + unknown.GetSpecifiedName(), Hint: cmp.Or(hintDashes(unknown.GetSpecifiedShortnames(), flagNames(flags)), hint)}
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if settings.Find(name) != nil { // a run has all of them, so this is a verb
			return &settings.Error{Problem: flags.Name() + " does not take --" + name + ", a flag of runs", Hint: "leave it out; " + hint}
		}
		e := &settings.Error{Problem: "unknown flag --" + settings.Redact(name), Hint: hint}
		if other := settings.Suggest(name, flagNames(flags)); other != "" {
			e.Hint = "did you mean --" + other + "?"
		}
		if slices.Contains(verbs, name) { // other programs have --version
			e.Hint = "did you mean leaderrun " + name + "?"
		}
		return e
	case errors.As(err, &bare):
		return &settings.Error{Setting: bare.GetFlag().Name, Problem: "needs a value", Hint: hint}
	case errors.As(err, &invalid):
		return &settings.Error{Setting: invalid.GetFlag().Name, Problem: "is a switch and takes no such value", Hint: "leave the value out"}
	}
	return &settings.Error{Problem: "a flag has a bad form", Hint: hint}
}

// hintDashes returns the hint for a long flag with one dash. rest is what pflag did not
// understand: "renew" of -renew, "erbose" of -verbose, since -v is a flag.
func hintDashes(rest string, names []string) string {
	rest, _, _ = strings.Cut(rest, "=")
	for _, name := range names {
		if name == rest || len(rest) > 1 && name[1:] == rest {
			return "did you mean --" + name + "? long flags have two dashes"
		}
	}
	return ""
}

// hintNoKey returns the hint for a command without --key that was probably meant otherwise. A
// verb must be similar: many commands begin like one, such as manage.sh and man.
func hintNoKey(command, verbs []string) string {
	if verb := settings.Similar(command[0], verbs); verb != "" {
		return "did you mean leaderrun " + verb + "? the verb comes first, flags after it; a command needs --key NAME"
	}
	for _, arg := range command[1:] {
		if arg == "--key" || strings.HasPrefix(arg, "--key=") {
			return strconv.Quote(settings.Redact(command[0])) + " is no verb, so it is the command: leaderrun's flags come before it; leaderrun help lists the verbs"
		}
	}
	return ""
}

func flagNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != settings.NowFlag && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}
