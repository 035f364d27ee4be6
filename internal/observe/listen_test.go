package observe

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// lines receives log output.
type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// served serves m and returns the URL.
func served(t *testing.T, m *Metrics) string {
	t.Helper()
	said := make(lines, 8)
	s := Serve("127.0.0.1:0", m, NewLogger(said, slog.LevelInfo, Form{}))
	t.Cleanup(s.Close)
	select {
	case line := <-said:
		return regexp.MustCompile(`http://127.0.0.1:[0-9]+`).FindString(line)
	case <-time.After(20 * time.Second):
		t.Fatal("it does not listen")
		panic("unreachable")
	}
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	answer, err := client.Get(url)
	must.Succeed(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must.Succeed(t, err)
	return answer.StatusCode, string(b)
}

func TestServer(t *testing.T) {
	waits := usual
	waits.Wait = time.Hour
	standby := []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held, Remaining: 20 * time.Second}}}
	tests := map[string]struct {
		events        []elect.Event
		now           time.Duration
		ready, leader int
		metrics       []string
	}{
		"nothing yet": {nil, 0, 503, 503, []string{"leaderrun_is_leader 0", "leader_acquired_total 0"}},
		"asking":      {standby[:1], 0, 503, 503, nil},
		"standby":     {standby, time.Second, 200, 503, []string{"leaderrun_is_leader 0", "leaderrun_lease_left_seconds 0"}},
		"asks again":  {append(standby, elect.Event{Kind: elect.Woke, At: time.Second}), time.Second, 200, 503, nil},
		"away":        {append(standby[:1:1], elect.Event{Kind: elect.NoAnswer, Err: &lease.StoreError{}}), time.Second, 503, 503, nil},
		"leading":     {led(), 12 * time.Second, 200, 200, []string{"leaderrun_is_leader 1", "leaderrun_lease_left_seconds 28.695", "leaderrun_lease_ttl_seconds 30"}},
		"in doubt": {led(elect.Event{Kind: elect.Timer, At: 21 * time.Second}, elect.Event{Kind: elect.NoAnswer, At: 22 * time.Second}, elect.Event{Kind: elect.NoAnswer, At: 23 * time.Second}),
			23 * time.Second, 200, 200, []string{"leader_renewal_failures_total 2"}},
		"slept":    {led(), time.Hour, 503, 503, []string{"leaderrun_is_leader 0", "leaderrun_lease_left_seconds 0"}},
		"stopping": {led(elect.Event{Kind: elect.Order, Signal: 15, At: 12 * time.Second}), 12 * time.Second, 200, 503, []string{"leaderrun_is_leader 1"}},
		"lost":     {led(elect.Event{Kind: elect.LeaseLost, At: 12 * time.Second}), 12 * time.Second, 503, 503, []string{"leaderrun_is_leader 0", "leader_lost_total 1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := NewMetrics("k", func() time.Duration { return test.now })
			url := served(t, m)
			observe(m, waits, test.events...)
			if status, text := get(t, url+"/livez"); status != 200 || text != "alive\n" {
				t.Errorf("/livez: %d, %q", status, text)
			}
			if status, text := get(t, url+"/readyz"); status != test.ready {
				t.Errorf("/readyz: %d, %q", status, text)
			}
			if status, text := get(t, url+"/leader"); status != test.leader || strings.Contains(text, `"leading":true`) != (status == 200) {
				t.Errorf("/leader: %d, %q", status, text)
			}
			status, text := get(t, url+"/metrics")
			if status != 200 {
				t.Errorf("/metrics: %d", status)
			}
			has(t, text, test.metrics...)
			if status, _ := get(t, url+"/"); status != 404 {
				t.Errorf("/: %d", status)
			}
		})
	}
}

// Who leads is told in every state.
func TestServerNamesTheLeader(t *testing.T) {
	m := NewMetrics("k", func() time.Duration { return time.Second })
	url := served(t, m)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/leader?watch", nil)
	must.Succeed(t, err)
	stream, err := http.DefaultClient.Do(request)
	must.Succeed(t, err)
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Errorf("it watches %s, want %s", lines.Text(), want)
		}
	}
	other, own := lease.NewHolder("web-1", 7), lease.NewHolder("web-2", 8)
	steps := []elect.Event{{Kind: elect.Begin}}
	says(`{"key":"k","leading":false,"leader":null}`)
	waits := usual
	waits.Wait = time.Hour
	for _, step := range []struct {
		event  elect.Event
		status int
		want   string
	}{
		{elect.Event{Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held, Value: string(other), Token: 7, Since: time.Minute}}, 503,
			`{"key":"k","leading":false,"leader":{"host":"web-1","holder":"` + string(other) + `","token":7,"since":"`},
		{elect.Event{Kind: elect.Woke}, 503, ""},
		{elect.Event{Kind: elect.Granted, Lease: lease.Lease{Holder: own, Token: 8, TTL: 30 * time.Second}}, 200,
			`{"key":"k","leading":true,"leader":{"host":"web-2","holder":"` + string(own) + `","token":8,"since":"`},
		{elect.Event{Kind: elect.LeaseLost}, 503, `{"key":"k","leading":false,"leader":null}`},
	} {
		steps = append(steps, step.event)
		observe(m, waits, steps...)
		if step.want == "" {
			continue
		}
		says(step.want)
		if status, text := get(t, url+"/leader"); status != step.status || !strings.HasPrefix(text, step.want) {
			t.Errorf("%d, %s, want %d, %s", status, text, step.status, step.want)
		}
	}
}

// A page in a browser listens with EventSource. Not everybody may watch: others want to ask.
func TestManyWatch(t *testing.T) {
	url := served(t, NewMetrics("k", func() time.Duration { return 0 })) + "/leader?watch"
	for i := range watching + 1 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must.Succeed(t, err)
		request.Header.Set("Accept", "text/event-stream")
		stream, err := http.DefaultClient.Do(request)
		must.Succeed(t, err)
		defer stream.Body.Close()
		line, _ := bufio.NewReader(stream.Body).ReadString('\n')
		if i < watching && line != `data: {"key":"k","leading":false,"leader":null}`+"\n" || i == watching && stream.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d: %d, %q", i, stream.StatusCode, line)
		}
	}
}

// A client that does not finish its request delays neither other clients nor the end of
// the run.
func TestServerIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(NewMetrics("k", nil))
		listener := make(pipes)
		go func() { _ = s.accept(listener) }()
		defer s.http.Close()
		answer := func(request string) string {
			conn, accepted := net.Pipe()
			t.Cleanup(func() { conn.Close() })
			go func() {
				listener <- accepted
				_, _ = io.WriteString(conn, request)
			}()
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			b, _ := io.ReadAll(conn)
			return string(b)
		}
		for range 20 { // more than are served at once: the server must give these up first
			go answer("GET /livez HT")
		}
		synctest.Wait()
		const get = "GET /livez HTTP/1.1\r\nHost: h\r\n"
		if got := answer(get + "\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%q", got)
		}
		if got := answer(get + "A: " + strings.Repeat("a", 1<<20)); !strings.HasPrefix(got, "HTTP/1.1 431") {
			t.Errorf("a header of a megabyte: %q", got)
		}
	})
}

// pipes is a net.Listener without a network, which would not be in the test's bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
