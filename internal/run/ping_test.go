package run

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// monitor answers pings as its URL says, and records them.
type monitor struct {
	mu  sync.Mutex
	got []string
}

func (m *monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.got = append(m.got, r.Method+" "+r.URL.String()+r.Referer())
	asked := len(m.got)
	m.mu.Unlock()
	switch where, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/s3cret/"), "/"); {
	case where == "moved":
		http.Redirect(w, r, "/s3cret/fine/"+what, http.StatusFound)
	case where == "away" || where == "busy" && asked == 1:
		w.WriteHeader(http.StatusInternalServerError)
	case where == "hangs":
		<-r.Context().Done()
	case where == "endless":
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
		}
	}
}

// A monitor learns of a start and of an end, whatever it answers, and no message tells its secret.
func TestPings(t *testing.T) {
	t.Parallel()
	for where, c := range map[string]struct {
		query string
		want  []string
		says  string
	}{
		"fine":    {"?create=1", []string{"GET /s3cret/fine/start?create=1", "GET /s3cret/fine/3?create=1"}, ""},
		"moved":   {"", []string{"GET /s3cret/moved/start", "GET /s3cret/fine/start", "GET /s3cret/moved/3", "GET /s3cret/fine/3"}, ""},
		"busy":    {"", []string{"GET /s3cret/busy/start", "GET /s3cret/busy/start", "GET /s3cret/busy/3"}, ""},
		"away":    {"", slices.Repeat([]string{"GET /s3cret/away/start", "GET /s3cret/away/3"}, pingTries), "it answers 500 Internal Server Error"},
		"hangs":   {"", []string{"GET /s3cret/hangs/start"}, "no answer in time"},
		"endless": {"", []string{"GET /s3cret/endless/start", "GET /s3cret/endless/3"}, ""},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			m := &monitor{}
			server := httptest.NewServer(m)
			defer server.Close()
			var said strings.Builder
			p := newPings(settings.Config{Ping: server.URL + "/s3cret/" + where + c.query}, observe.NewLogger(&said, slog.LevelInfo, observe.Form{}), nil)
			p.call(observe.Hook{Event: observe.HookAcquire})
			if where != "hangs" {
				p.call(observe.Hook{Event: observe.HookLost, Status: 76})
				p.call(observe.Hook{Event: observe.HookSkip})
				p.call(observe.Hook{Event: observe.HookEnd, Status: 3})
			}
			p.Finish(nil)
			slices.Sort(c.want)
			m.mu.Lock()
			defer m.mu.Unlock()
			if slices.Sort(m.got); !slices.Equal(m.got, c.want) {
				t.Errorf("%q, want %q", m.got, c.want)
			}
			if text := said.String(); !strings.Contains(text, c.says) || c.says == "" && text != "" || strings.Contains(text, "s3cret") {
				t.Errorf("said %q, want %q", text, c.says)
			}
		})
	}
	if newPings(settings.Config{}, nil, nil) != nil {
		t.Error("pings without a URL")
	}
}
