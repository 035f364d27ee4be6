package observe

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// screen emulates a terminal.
type screen struct {
	mu    sync.Mutex
	lines []string
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = []string{""}
	}
	text := strings.NewReplacer(noWrap, "", wrap, "").Replace(string(b))
	for len(text) > 0 {
		last := &s.lines[len(s.lines)-1]
		switch {
		case strings.HasPrefix(text, erase):
			*last, text = "", text[len(erase):]
		case text[0] == '\n':
			s.lines, text = append(s.lines, ""), text[1:]
		default:
			*last, text = *last+text[:1], text[1:]
		}
	}
	return len(b), nil
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term screen
		var watched atomic.Bool
		watched.Store(true)
		line := NewLine(&term, "nightly", watched.Load)
		log := NewLogger(line, slog.LevelWarn, Form{})
		denied := func(d lease.Condition) {
			line.Observe(campaign.Transition{Event: elect.Event{Kind: elect.Denied, Denial: d},
				To: elect.State{Phase: candidate.Standby, Outcome: candidate.Denied, Candidacy: elect.Candidacy{Denial: d}}})
		}
		step := func(phase candidate.Phase) {
			line.Observe(campaign.Transition{To: elect.State{Phase: phase}})
		}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := term.text(); got != want {
				t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
			}
		}

		step(candidate.Campaigning)
		expect("")
		held := lease.Condition{Why: lease.Held, Value: "web-1/812/" + strings.Repeat("0a", 16), Since: 5 * time.Second, Remaining: 20 * time.Second}
		denied(held)
		expect("leaderrun: nightly: standing by: web-1 has led for 5s")
		time.Sleep(2500 * time.Millisecond)
		expect("leaderrun: nightly: standing by: web-1 has led for 7s")
		log.Warn("trouble")
		expect("leaderrun: trouble\nleaderrun: nightly: standing by: web-1 has led for 8s")
		step(candidate.Campaigning)
		denied(lease.Condition{Why: lease.Foreign, Value: "a\x1b[2J\nb"})
		expect("leaderrun: trouble\nleaderrun: nightly: standing by: the key holds \"a\\x1b[2J\\nb\", which leaderrun did not write")
		step(candidate.Starting)
		expect("leaderrun: trouble\n")
		log.Warn("more")
		time.Sleep(5 * time.Second) // the line is no longer redrawn, else the bubble would not end
		expect("leaderrun: trouble\nleaderrun: more\n")

		denied(held)
		watched.Store(false) // the shell has taken the terminal, and begun a new line
		log.Warn("unwatched")
		time.Sleep(5 * time.Second)
		lines := "leaderrun: trouble\nleaderrun: more\nleaderrun: nightly: standing by: web-1 has led for 5sleaderrun: unwatched\n"
		expect(lines)
		watched.Store(true)
		time.Sleep(time.Second)
		expect(lines + "leaderrun: nightly: standing by: web-1 has led for 11s")
		step(candidate.Starting)
		expect(lines)
	})
}

// The line is erased before the command can write, however busy the terminal is; one that
// takes nothing does not keep the command from its start.
func TestLineIsErasedBeforeTheStart(t *testing.T) {
	standby := campaign.Transition{Event: elect.Event{Kind: elect.Denied}, To: elect.State{Phase: candidate.Standby, Outcome: candidate.Denied}}
	starts := campaign.Transition{To: elect.State{Phase: candidate.Starting}}
	var term screen
	slow := NewWriter(writerFunc(func(b []byte) (int, error) {
		time.Sleep(20 * time.Millisecond)
		return term.Write(b)
	}))
	defer slow.Close()
	line := NewLine(slow, "nightly", func() bool { return true })
	line.Observe(standby)
	line.Observe(starts)
	if got := term.text(); got != "" || term.lines == nil {
		t.Errorf("at the start the terminal shows %q", got)
	}
	never := make(chan struct{})
	stuck := NewWriter(writerFunc(func(b []byte) (int, error) { <-never; return len(b), nil }))
	line = NewLine(stuck, "nightly", func() bool { return true })
	line.Observe(standby)
	begun := time.Now()
	line.Observe(starts)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a terminal that takes nothing held up the start for %s", took)
	}
	close(never)
	stuck.Close()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
