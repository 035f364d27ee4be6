package observe

import (
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// manager listens on NOTIFY_SOCKET. heard returns the messages since its last call.
func manager(t *testing.T) (heard func() []string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must.Succeed(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv(NotifySocket, socket)
	return func() []string {
		const mark = "all was sent before this"
		if _, err := conn.WriteTo([]byte(mark), conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		var all []string
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			must.Succeed(t, err)
			if string(b[:n]) == mark {
				return all
			}
			all = append(all, string(b[:n]))
		}
	}
}

func TestService(t *testing.T) {
	heard := manager(t)
	held := lease.Condition{Why: lease.Held, Value: "web-1/812/" + strings.Repeat("0a", 16), Remaining: 20 * time.Second}
	waits := usual
	waits.Wait = time.Hour
	rejoins := waits
	rejoins.Rejoin = true
	leading := []string{"READY=1\nSTATUS=leading with token 7 since "}
	end := []string{"STATUS=releasing the lease", "STATUS=ended"}
	tests := map[string]struct {
		set    elect.Settings
		events []elect.Event
		want   []string
	}{
		"success":  {usual, led(ended(12*time.Second, 0)...), append(leading, "STOPPING=1\nSTATUS=releasing the lease", "STATUS=ended")},
		"standby":  {waits, []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: held}, {Kind: elect.Timer, At: 20 * time.Second}}, []string{"STATUS=standing by: web-1 leads"}},
		"foreign":  {waits, []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Foreign, Value: "x\nMAINPID=1", Remaining: 20 * time.Second}}}, []string{`STATUS=standing by: the key holds "x\nMAINPID=1", which leaderrun did not write`}},
		"away":     {waits, []elect.Event{{Kind: elect.Begin}, {Kind: elect.NoAnswer, Err: &lease.StoreError{}}}, []string{"STATUS=standing by: the store cannot be used"}},
		"skipped":  {usual, []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: held}}, []string{"STOPPING=1\nSTATUS=ended"}},
		"ordered":  {usual, led(append([]elect.Event{{Kind: elect.Order, Signal: 15, At: 12 * time.Second}}, ended(13*time.Second, 0)...)...), append(append(leading, "STOPPING=1\nSTATUS=stopping: ordered to"), end...)},
		"lost":     {usual, led(append([]elect.Event{{Kind: elect.LeaseLost, At: 12 * time.Second}}, ended(13*time.Second, 0)...)...), append(append(leading, "STOPPING=1\nSTATUS=stopping: the lease is lost"), end...)},
		"rejoined": {rejoins, led(append([]elect.Event{{Kind: elect.LeaseLost, At: 12 * time.Second}}, ended(13*time.Second, 0)...)...), append(append(leading, "STATUS=stopping: the lease is lost"), "STATUS=releasing the lease", "STATUS=standing by: the store cannot be used")},
		"doubtful": {usual, led(elect.Event{Kind: elect.Timer, At: 21 * time.Second}, elect.Event{Kind: elect.NoAnswer, At: 22 * time.Second}, elect.Event{Kind: elect.NoAnswer, At: 23 * time.Second}),
			append(leading, "STATUS=leading with token 7, but renewals are not answered")},
	}
	for name, test := range tests {
		s := NewService(test.set.Rejoin, slog.New(slog.DiscardHandler))
		observe(s, test.set, test.events...)
		s.Close()
		got := heard()
		for i, message := range got {
			got[i] = regexp.MustCompile(`since .*`).ReplaceAllString(message, "since ")
		}
		if strings.Join(got, "|") != strings.Join(test.want, "|") {
			t.Errorf("%s: sent %q, want %q", name, got, test.want)
		}
	}
}

// A manager that does not read does not delay the run.
func TestSilentManager(t *testing.T) {
	manager(t)
	s := NewService(false, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() {
		for range 10_000 {
			observe(s, usual, led()...)
		}
		s.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the service manager holds the run up")
	}
}
