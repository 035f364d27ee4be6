//go:build linux

package program

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// TestPings runs the crontab line of docs/operations.md against its own dead man's switch.
func TestPings(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var pings []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		pings = append(pings, r.URL.Path)
	}))
	defer server.Close()
	programs, dir := blocks(t, "docs/operations.md"), t.TempDir()
	job := filepath.Join(dir, "job.sh")
	must.Succeed(t, os.WriteFile(job, []byte("#!/bin/sh\nexit ${STATUS:-0}\n"), 0o700)) //nolint:gosec // a program
	variable, line, _ := strings.Cut(programs["nightly"], "\n")
	words := strings.NewReplacer("https://hc-ping.com/UUID", server.URL+"/id", "/opt/job.sh", job)
	_, command, found := strings.Cut(words.Replace(line), "leaderrun ")
	if !found {
		t.Fatalf("no leaderrun in %q", line)
	}
	for _, run := range []struct {
		status string
		code   int
		want   []string
	}{
		{"4", 4, []string{"/id/start", "/id/4"}},
		{"0", 0, []string{"/id/start", "/id/0"}},
		{"0", 0, nil}, // the tick is served
	} {
		cron := exec.Command("sh", "-c", "leaderrun "+command)
		cron.Env = append(os.Environ(), words.Replace(variable), "STATUS="+run.status, "LEADERRUN_STORE=file:"+filepath.Join(dir, "leases"))
		out, err := cron.CombinedOutput()
		if code := cron.ProcessState.ExitCode(); code != run.code || len(out) > 0 {
			t.Errorf("it ended with %d, want %d (%v), and said %q", code, run.code, err, out)
		}
		if !slices.Equal(pings, run.want) {
			t.Errorf("pings %q, want %q", pings, run.want)
		}
		pings = nil
	}
}
