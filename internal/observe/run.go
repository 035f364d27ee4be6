package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Run is a campaign.Observer that logs a run: problems as warnings, stages as info, every
// step at debug level. The caller logs how the run ended.
type Run struct {
	log   *slog.Logger
	ticks bool // the run has some
	// away: the last log record about the store said that a standby cannot use it.
	away bool
	// told are the causes of the failed renewals since the last one that succeeded.
	told map[string]bool
	// result is what the last release records in the store.
	result lease.Result
}

// NewRun logs to log.
func NewRun(log *slog.Logger, ticks bool) *Run { return &Run{log: log, ticks: ticks} }

// Observe logs one step.
func (r *Run) Observe(t campaign.Transition) {
	if r.log.Enabled(context.Background(), slog.LevelDebug) {
		r.log.Debug(elect.Line(t.From, t.Event, t.To, t.Actions), EventStep)
	}
	switch {
	case !t.From.Offering && t.To.Offering:
		r.warn(EventOf(candidate.Ineligible), "the next standby that may lead gets the lease", t.Event.Err)
	case t.From.Offering && !t.To.Offering && t.To.Outcome == "":
		r.log.Warn("this host is eligible again and keeps the lease", EventRecovered)
	}
	if r.ticks && t.From.Tick == 0 && t.To.Tick != 0 {
		r.log.Info("the tick is that of "+time.UnixMilli(t.To.Tick).Format(time.RFC3339), EventTick)
	}
	switch t.Event.Kind {
	case elect.Granted:
		if starts(t) {
			r.log.Info("the lease is acquired", EventAcquired, "holder", t.To.Lease.Holder, "token", t.To.Lease.Token)
		}
	case elect.Started:
		r.log.Info("the command has started", EventStarted)
	case elect.Renewed:
		r.renewed(t)
	case elect.TreeGone:
		r.log.Info("the command has ended, and all that it started", EventEnded, "exit", t.To.Exit.Status())
	case elect.Released:
		r.released(t)
	case elect.NoAnswer, elect.Broken:
		r.unanswered(t)
	case elect.ReleaseFailed:
		if t.To.Phase != candidate.Releasing {
			r.notReleased(t)
		}
	}
	for _, a := range t.Actions {
		if a.Kind == elect.Release {
			r.result = a.Result
		}
	}
	if t.From.Outcome != t.To.Outcome && t.To.Outcome != "" && t.To.Phase.HasTree() {
		r.stopping(t)
	}
	if t.From.Phase != t.To.Phase {
		r.entered(t)
	}
}

func (r *Run) renewed(t campaign.Transition) {
	if t.From.Phase == candidate.Doubtful && t.To.Phase == candidate.Leading {
		r.log.Warn("the lease is renewed again", EventRecovered)
	} else {
		r.log.Info("the lease is renewed", EventRenewed)
	}
	if t.To.Lease.Reasserted {
		r.log.Warn("the lease had gone from the store and was put back",
			EventReasserted, HintAttr, "find out what took it: the clock of the store's host was set, a restart of the store without its data, a person, a clean-up, or in Redis an eviction policy other than noeviction")
	}
}

// released warns if another holder was granted the lease before this run ended. Only the
// first attempt to release shows that: a later one may find that the first succeeded.
func (r *Run) released(t campaign.Transition) {
	if errors.Is(t.Event.Err, lease.ErrLost) && t.From.Releases == 1 && t.From.Ran && !t.From.Outcome.Voids() { // a void run is reported already
		r.log.Warn("the lease was not ours any more when the command ended: another one may have run beside it", EventLost, HintAttr, LostHint)
		return
	}
	r.log.Info("the lease is released", EventReleased)
}

// LostHint names the possible causes of a lost lease.
const LostHint = "find out what took it: leaderrun release --force --now, the clock of the store's host that was set, a restart of the store without its data, a person, or a clean-up"

// UncheckedHint says what to do about a check that gave no answer.
const UncheckedHint = "run it by hand as this user: 0 is yes, 1 to 125 is no; 126, 127, a signal and more than 10s are no answer"

func (r *Run) unanswered(t campaign.Transition) {
	if t.From.Phase == candidate.Leading {
		r.told = nil
	}
	switch {
	case t.Event.Kind == elect.NoAnswer && t.To.Phase == candidate.Doubtful && r.isNew(t.Event.Err):
		left := (t.To.StopBy - t.Event.At).Round(100 * time.Millisecond)
		r.warn(EventRenewalFailed, fmt.Sprintf("renewal failed, the command is stopped in %s unless one succeeds", left), t.Event.Err)
	case t.From.Phase.HasTree() && t.Event.Kind == elect.NoAnswer:
		r.log.Info(because("renewal failed", t.Event.Err), EventRenewalFailed)
	// A proxy in front of the store may close the idle connection of a waiting standby.
	// The next attempt shows whether the store can be used.
	case t.From.Phase == candidate.Standby:
		r.log.Info(because("standing by, without a wake-up until the next attempt", t.Event.Err), EventStandingBy)
	case t.To.Phase == candidate.Standby && t.To.WaitUntil > t.Event.At && !r.away:
		r.away = true
		r.warn(EventStoreAway, "standing by, but the store cannot be used", t.Event.Err)
	}
}

// isNew reports whether the cause of a failed renewal was not told since the last renewal.
func (r *Run) isNew(cause error) bool {
	text := because("", cause)
	if r.told[text] {
		return false
	}
	if r.told == nil {
		r.told = map[string]bool{}
	}
	r.told[text] = true
	return true
}

// entered logs a new phase.
func (r *Run) entered(t campaign.Transition) {
	if r.away && (t.To.Phase == candidate.Starting || denied(t.To)) {
		r.away = false
		r.log.Warn("the store can be used again", EventStoreBack)
	}
	switch {
	case t.To.Phase != candidate.Standby || t.From.Outcome == t.To.Outcome:
	case denied(t.To):
		r.log.Info("standing by: "+t.To.Denial.String(), EventStandingBy)
	case t.To.Outcome == candidate.Ineligible:
		r.log.Info(because("standing by", t.To.Err), EventStandingBy)
	case t.To.Outcome == candidate.Unchecked:
		r.log.Warn(because("standing by", t.To.Err), EventOf(candidate.Unchecked), HintAttr, UncheckedHint)
	}
	if t.From.Phase == candidate.Stopping && t.To.Phase == candidate.Killing && t.To.Orders.Count < 2 {
		r.log.Warn("the command did not end within its grace, killing it", EventKilling)
	}
}

// denied reports whether the candidate stands by because the store said no.
func denied(s elect.State) bool {
	return s.Phase == candidate.Standby && (s.Outcome == candidate.Denied || s.Outcome == candidate.Paused)
}

// stopping logs why a tree is being stopped.
func (r *Run) stopping(t campaign.Transition) {
	switch t.To.Outcome {
	case candidate.Lost:
		r.log.Warn("lease lost, stopping the command", EventLost)
	case candidate.Expired:
		r.log.Warn(because("giving up the lease, stopping the command", t.To.Err), EventExpired)
	case candidate.LeftBehind:
		r.log.Warn("the command ended but left descendants alive, stopping them: "+t.To.Left,
			EventLeftovers, HintAttr, "run the work in the foreground, or use --leftovers wait")
	default:
		r.log.Info("stopping the command: "+reasons[t.To.Outcome], EventStopping)
	}
}

// notReleased logs that others have to wait because of a failed release. For a lost or
// expired lease they need not.
func (r *Run) notReleased(t campaign.Transition) {
	s := t.From
	switch {
	case r.result.Success && lease.Round(s.Lease.Period, s.Lease.Exact) > 0:
		r.warn(EventNotRecorded, "the success could not be recorded, another host may run this tick again", t.Event.Err)
	case !s.Outcome.Voids() && t.Event.At < s.ValidUntil:
		r.warn(EventNotReleased, fmt.Sprintf("the lease could not be released, others may have to wait up to %s for its end", s.Lease.TTL), t.Event.Err)
	}
}

// warn logs a message with its cause, and the hint of a store's error.
func (r *Run) warn(about slog.Attr, message string, cause error) {
	attrs := []any{about}
	if store, ok := errors.AsType[*lease.StoreError](cause); ok {
		attrs = append(attrs, HintAttr, store.Hint)
	}
	r.log.Warn(because(message, cause), attrs...)
}

func because(message string, cause error) string {
	if cause == nil {
		return message
	}
	return message + ": " + cause.Error()
}
