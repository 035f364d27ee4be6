package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
)

// What is said to people goes to stderr, since stdout belongs to the command:
// one line that begins with "leaderrun: ", without a capital and a full stop,
// and where there is something to do about it, a second one that says what. A
// run that succeeds or is skipped says nothing, so that cron sends no mail.

// newLogger is where all messages of a run go. --quiet keeps errors only.
func newLogger(w io.Writer, c config.Config) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case c.Quiet:
		level = slog.LevelError
	case c.Verbose:
		level = slog.LevelDebug
	}
	return observe.NewLogger(w, level, observe.Form{JSON: c.JSONLog, Journal: observe.ToJournal()})
}

func fail(log *slog.Logger, err error) {
	log.Error(err.Error(), about(observe.EventRefused, err)...)
}

// about are the event of a record and what to do about its error.
func about(event slog.Attr, err error) []any { return append([]any{event}, cure(err)...) }

// cure is what to do about an error, as an attribute, if anybody knows.
func cure(err error) []any {
	if text := cureOf(err); text != "" {
		return []any{observe.CureAttr, text}
	}
	return nil
}

func cureOf(err error) string {
	var setting *config.Error
	var store *lease.StoreError
	switch {
	case errors.As(err, &setting) && setting.Cure != "":
		return setting.Cure
	case errors.As(err, &store) && store.Cure != "":
		return store.Cure
	}
	for _, s := range shortages {
		if errors.Is(err, s.err) {
			return s.cure
		}
	}
	return ""
}

// warnAbout says what is allowed but probably not meant.
func warnAbout(log *slog.Logger, c config.Config) {
	if c.StoreSource == "" {
		log.Warn("no store named: using Redis on THIS host; other hosts are not excluded",
			observe.EventAdvice, observe.CureAttr, nameStore())
	}
	if c.TTL < config.ShortTTL {
		log.Warn(fmt.Sprintf("a TTL of %s is short: a brief pause of the store or of this host costs the lease", config.Text(c.TTL)),
			observe.EventAdvice, observe.CureAttr, "use --ttl 3s or more")
	}
}

func nameStore() string {
	return "name it with --store redis://HOST:6379/0, LEADERRUN_STORE or store: in " + defaultFiles()[0]
}

// addressError tells where a store's address was found that is no good.
type addressError struct {
	source string
	err    error
}

func openError(c config.Config, err error) error {
	return &addressError{cmp.Or(c.StoreSource, "the default store"), err}
}

func (e *addressError) Error() string { return e.source + ": " + e.err.Error() }
func (e *addressError) Unwrap() error { return e.err }

// explain says why a run ended, unless it went as it should.
func explain(log *slog.Logger, c config.Config, r campaign.Result) {
	log = log.With(observe.KeyAttr, c.Key, "outcome", string(r.Outcome))
	switch {
	case r.Outcome == elect.Lost && errors.Is(r.Err, lease.ErrRevoked):
		log.Error("an operator took the lease away, the command was stopped, its result is void",
			observe.EventVoid, observe.CureAttr, "somebody used leaderrun release --force; leaderrun status --key "+c.Key+" tells who leads")
	case r.Outcome == elect.Lost:
		log.Error("lease lost, the command was stopped, its result is void: "+reason(r.Err),
			observe.EventVoid, observe.CureAttr, "find out who took it: an operator with leaderrun release --force --now, or who else writes to leaderrun's keys in the store")
	case r.Outcome == elect.Expired:
		log.Error("lease expired, the command was stopped, its result is void: "+reason(r.Err), about(observe.EventVoid, r.Err)...)
	case r.Outcome == elect.Unavailable:
		log.Error("nothing ran: "+reason(r.Err), about(observe.EventUnavailable, r.Err)...)
	case r.Outcome == elect.NotStarted:
		explainStart(log, c.Command[0], r.Err)
	case r.Outcome == elect.GuardDied:
		log.Error("the command was killed: "+reason(r.Err),
			observe.EventGuardDied, observe.CureAttr, "look for who killed it: a person, or the kernel for lack of memory")
	case r.Outcome == elect.MaxRuntime:
		log.Error(fmt.Sprintf("the command ran longer than --max-runtime %s and was stopped", config.Text(c.MaxRuntime)), observe.EventMaxRuntime)
	case ranOut(r, c):
		log.Error(fmt.Sprintf("nothing ran: --wait %s ran out, %s", config.Text(c.Wait), whoLeads(r.Holder)),
			observe.EventWaitRanOut, observe.CureAttr, "wait longer, or choose the status of this case with -E")
	case r.Outcome == elect.Denied:
		log.Log(context.Background(), skipLevel(), "nothing ran: "+whoLeads(r.Holder), observe.EventDenied)
	case r.Outcome == elect.Skipped:
		log.Log(context.Background(), skipLevel(), "nothing ran: "+reason(r.Err), observe.EventSkipped)
	}
}

// skipLevel is that of a skip: who watches is told, cron must not send mail.
func skipLevel() slog.Level {
	if isTerminal(os.Stderr) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func explainStart(log *slog.Logger, name string, err error) {
	shown := config.Shown(name)
	switch notStarted(err) {
	case exitNotFound:
		hint := "check its path and, for a script, the interpreter in its first line"
		switch {
		case strings.Contains(name, " "):
			hint = "no shell reads it: write its arguments as words of their own, or sh -c 'COMMAND ARG'"
		case !strings.Contains(name, "/"):
			hint = "give its full path: the PATH of cron and of services is short"
		}
		log.Error(fmt.Sprintf("command not found: %q", shown), observe.EventNotStarted, observe.CureAttr, hint)
	case exitCannotExecute:
		log.Error(fmt.Sprintf("cannot execute %q: %s", shown, cause(err)), observe.EventNotStarted, observe.CureAttr, "it must be an executable file: chmod +x, and #! in a script's first line")
	default:
		log.Error("nothing ran: "+notStartable(shown, err), about(observe.EventNotStarted, err)...)
	}
}

// notStartable says what kept leaderrun from starting anything.
func notStartable(shown string, err error) string {
	switch {
	case errors.Is(err, runner.ErrGuard):
		return err.Error()
	case errors.Is(err, syscall.ETIMEDOUT): // the guard looked at the clock before it started the command
		return "the lease ran out before the start: leaderrun itself was stopped, starved, or asleep with the machine"
	}
	return fmt.Sprintf("cannot start %q: %s", shown, reason(err))
}

// shortages are what a system may lack that cannot start a process.
var shortages = []struct {
	err  error
	cure string
}{
	{runner.ErrNoProc, "mount the /proc of this process namespace: mount -t proc proc /proc"},
	{syscall.EMFILE, "raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit"},
	{syscall.ENFILE, "this host has no open files left: find out who holds them, or raise fs.file-max"},
	{syscall.EAGAIN, "raise the limit of processes: ulimit -u, TasksMax= of a systemd unit, or the pids limit of a container"},
	{syscall.ENOMEM, "free memory, or raise the memory limit of the unit or container"},
}

func reason(err error) string {
	if err == nil {
		return "no reason known"
	}
	return err.Error()
}

// whoLeads tells what stands in the way. What it quotes comes from the store and
// may be anything.
func whoLeads(held *lease.HeldError) string {
	if held == nil {
		return "the key is taken"
	}
	rest := held.Remaining.Round(time.Second)
	switch held.Why {
	case lease.HeldCooldown:
		return fmt.Sprintf("the minimum hold of the last run lasts for another %s", rest)
	case lease.HeldRevoked:
		return fmt.Sprintf("the lease was revoked and its holder has %s left to stop", rest)
	case lease.HeldForeign:
		return fmt.Sprintf("the key holds %q, which leaderrun did not write", held.Value)
	}
	return fmt.Sprintf("%q leads", held.Value)
}

// watched reports whether somebody may watch a standby, who is not told more
// anyway, on a terminal that can rewrite a line.
func watched(c config.Config) bool {
	return !c.Quiet && !c.Verbose && !c.JSONLog && isTerminal(os.Stderr) && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}

// isTerminal reports whether somebody may be watching.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
