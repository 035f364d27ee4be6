package observe

import (
	"log/slog"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// Events are the values of the attribute event of log records. Programs rely on them,
// people read the messages. docs/settings.md explains each.
var (
	EventStep          = event("step")
	EventStandingBy    = event("standing-by")
	EventStoreAway     = event("store-away")
	EventStoreBack     = event("store-back")
	EventTick          = event("tick")
	EventAcquired      = event("acquired")
	EventStarted       = event("started")
	EventRenewed       = event("renewed")
	EventRenewalFailed = event("renewal-failed")
	EventRecovered     = event("recovered")
	EventReasserted    = event("reasserted")
	EventLost          = event("lost")
	EventExpired       = event("expired")
	EventLeftovers     = event("leftovers")
	EventStopping      = event("stopping")
	EventKilling       = event("killing")
	EventEnded         = event("ended")
	EventReleased      = event("released")
	EventNotReleased   = event("not-released")
	EventNotRecorded   = event("not-recorded")

	EventVoid       = event("void")
	EventWaitRanOut = event("wait-ran-out")

	EventRefused    = event("refused")
	EventAdvice     = event("advice")
	EventLeaseFile  = event("lease-file-failed")
	EventHookFailed = event("hook-failed")
	EventMetrics    = event("metrics-failed")
	EventServing    = event("metrics-served")
	EventManager    = event("notify-failed")
)

// EventOf returns the event of a run that ended with this outcome, or is about to.
func EventOf(why candidate.Outcome) slog.Attr { return slog.String("event", string(why)) }

// events are all names of events.
var events []string

func event(name string) slog.Attr {
	events = append(events, name)
	return slog.String("event", name)
}
