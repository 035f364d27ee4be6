package observe

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Standing is what /leader answers.
type Standing struct {
	Key string `json:"key"`
	// Leading: this run leads. Leader is who leads as far as this run knows, nil if it does not.
	Leading bool    `json:"leading"`
	Leader  *Leader `json:"leader"`
}

// Leader is a holder of the key. Since is when it was granted the lease, by this host's clock.
type Leader struct {
	Host   string       `json:"host"`
	Holder lease.Holder `json:"holder"`
	Token  int64        `json:"token"`
	Since  time.Time    `json:"since"`
}

// note records who leads after a step.
func (m *Metrics) note(t campaign.Transition) {
	holder, token, since := lease.Holder(""), int64(0), time.Duration(0)
	switch denial := t.Event.Denial; {
	case t.To.Leads():
		holder, token = t.To.Lease.Holder, t.To.Lease.Token
	case t.Event.Kind == elect.Denied && denial.Why == lease.Held:
		holder, token, since = denial.Holder(), denial.Token, denial.Since
	case t.Event.Kind == elect.Denied, t.Event.Kind == elect.NoAnswer, t.From.Leads():
	default:
		return // it says nothing about the leader
	}
	switch {
	case holder == "":
		m.leader = nil
	case m.leader == nil || m.leader.Holder != holder || m.leader.Token != token:
		m.leader = &Leader{holder.Host(), holder, token, time.Now().Add(-since).Truncate(time.Second)}
	}
}

// whoLeads looks at the clock itself, as standing does.
func (m *Metrics) whoLeads() Standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.holds()
	s := Standing{m.key, held && !stopping(m.state), m.leader}
	if m.state.Leads() && !held {
		s.Leader = nil
	}
	return s
}

// serveLeader answers with a [Standing] as JSON, and the status 200 while this run leads, else 503.
// With ?watch it goes on with a line for each change, as server-sent events if the client asks for
// them.
func (s *Server) serveLeader(w http.ResponseWriter, r *http.Request) {
	now := s.metrics.whoLeads()
	if r.URL.Query().Has("watch") {
		s.watchLeader(w, r, now)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !now.Leading {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(now)
}

func (s *Server) watchLeader(w http.ResponseWriter, r *http.Request, now Standing) {
	const look = 100 * time.Millisecond
	select {
	case s.watchers <- struct{}{}:
		defer func() { <-s.watchers }()
	default:
		answer(w, false, "too many watch already")
		return
	}
	kind, before, after := "application/x-ndjson", "", "\n"
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		kind, before, after = "text/event-stream", "data: ", "\n\n"
	}
	w.Header().Set("Content-Type", kind)
	connection := http.NewResponseController(w)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for said := []byte(nil); ; now = s.metrics.whoLeads() {
		line, _ := json.Marshal(now) // cannot fail
		if string(line) != string(said) {
			said = line
			_ = connection.SetWriteDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(w, before+string(line)+after); err != nil || connection.Flush() != nil {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}
