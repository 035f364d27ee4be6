package observe

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/journal"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
)

// NotifySocket is the variable that names the service manager's socket. Only the process
// that the manager started reports there.
const NotifySocket = "NOTIFY_SOCKET"

// Managed reports whether this process should notify a service manager. A leaderrun that
// was started by a process of a service must not speak for that service.
func Managed() bool {
	started, named := os.LookupEnv("SYSTEMD_EXEC_PID")
	return os.Getenv(NotifySocket) != "" && (!named || started == strconv.Itoa(os.Getpid()))
}

// ToJournal reports whether standard error is systemd's journal.
func ToJournal() bool {
	ok, err := journal.StderrIsJournalStream()
	return ok && err == nil
}

// Service is a campaign.Observer that notifies the service manager: ready when the command
// has started, stopping when the run ends, and a status line. It sends from its own
// goroutine.
type Service struct {
	rejoins  bool
	log      *slog.Logger
	queue    chan string
	done     chan struct{}
	text     string
	stopping bool
}

// NewService notifies the manager until Close. rejoins: a run goes on after a lost lease.
func NewService(rejoins bool, log *slog.Logger) *Service {
	const most = 64
	s := &Service{rejoins: rejoins, log: log, queue: make(chan string, most), done: make(chan struct{})}
	go s.send()
	return s
}

func (s *Service) send() {
	defer close(s.done)
	warned := false
	for state := range s.queue {
		if _, err := daemon.SdNotify(false, state); err != nil && !warned {
			warned = true
			s.log.Warn("the service manager could not be notified: "+err.Error(), EventManager, HintAttr, "look at NOTIFY_SOCKET, or unset it")
		}
	}
}

// Close waits until everything is sent, for at most a second.
func (s *Service) Close() {
	close(s.queue)
	await(s.done, time.Second)
}

// Observe sends what has changed.
func (s *Service) Observe(t campaign.Transition) {
	var news []string
	if t.Event.Kind == elect.Started && t.To.Phase == candidate.Leading {
		news = append(news, daemon.SdNotifyReady)
	}
	if !s.stopping && s.ends(t.To) {
		s.stopping = true
		news = append(news, daemon.SdNotifyStopping)
	}
	if text := s.status(t); text != "" && text != s.text {
		s.text = text
		news = append(news, "STATUS="+Printable(text))
	}
	if len(news) == 0 {
		return
	}
	select {
	case s.queue <- strings.Join(news, "\n"):
	default:
	}
}

// ends reports whether it is certain that the run ends now.
func (s *Service) ends(to elect.State) bool {
	switch to.Phase {
	case candidate.Stopping, candidate.Killing:
		return to.Orders.Count > 0 || !s.rejoins
	case candidate.Releasing:
		return to.Orders.Count > 0 || to.Outcome != candidate.Unavailable && !(s.rejoins && to.Outcome.Voids())
	}
	return to.Phase == candidate.Done
}

// status returns the status line; empty if it does not change.
func (s *Service) status(t campaign.Transition) string {
	switch t.To.Phase {
	case candidate.Standby, candidate.Campaigning, candidate.Checking:
		return waiting(t.To)
	case candidate.Leading:
		if t.From.Phase == candidate.Leading {
			return ""
		}
		return fmt.Sprintf("leading with token %d since %s", t.To.Lease.Token, time.Now().Add(t.To.AcquiredAt-t.Event.At).Format(time.RFC3339))
	case candidate.Doubtful:
		return fmt.Sprintf("leading with token %d, but renewals are not answered", t.To.Lease.Token)
	case candidate.Stopping, candidate.Killing:
		return "stopping: " + reasons[t.To.Outcome]
	case candidate.Releasing:
		return "releasing the lease"
	case candidate.Done:
		return "ended" // the manager shows it after the end of the process
	}
	return ""
}

func waiting(to elect.State) string {
	switch to.Outcome {
	case candidate.Unavailable:
		return "standing by: the store cannot be used"
	case candidate.Ineligible:
		return "standing by: this host is not eligible"
	case candidate.Unchecked:
		return "standing by: the check of this host gives no answer"
	case candidate.Denied, candidate.Paused:
		return "standing by: " + to.Denial.Lasting().String()
	}
	return ""
}

// reasons say why a command is being stopped.
var reasons = map[candidate.Outcome]string{
	candidate.Ordered:    "ordered to",
	candidate.HandedOver: "an operator's release",
	candidate.Unfit:      "this host is not eligible any more",
	candidate.Lost:       "the lease is lost",
	candidate.Expired:    "the lease runs out",
	candidate.MaxRuntime: "it ran too long",
	candidate.LeftBehind: "descendants outlived the command",
}
