//go:build amd64

package file

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// synced are the calls of a run in their order, and what each has to sync before it returns:
// a temporary file, and the directory if the change must survive a power cut.
var synced = []struct{ call, what string }{
	{"file store", "above"}, // the parent, in which the directory was created
	{"acquire", "file"}, {"acquire", "directory"},
	{"renew", "file"}, {"renew", "file"},
	{"release", "file"}, {"release", "directory"},
}

// TestSyncs makes each fsync(2) of a run fail in turn, as the kernel sees it.
func TestSyncs(t *testing.T) {
	failcall := filepath.Join(t.TempDir(), "failcall")
	build := exec.Command("go", "build", "-trimpath", "-o", failcall, "../../tools/failcall")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as for the program
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for n := 1; n <= len(synced)+1; n++ {
		dir := filepath.Join(t.TempDir(), "leases")
		run := inRole(t, "synced", dir)
		report := filepath.Join(t.TempDir(), "report")
		run.Args = append([]string{failcall, report, "elector", "fsync", strconv.Itoa(n), "EIO", "--", run.Path}, dir)
		run.Path, run.Stderr = failcall, nil
		said, err := run.CombinedOutput()
		reported, _ := os.ReadFile(report)
		_, failed, _ := strings.Cut(string(reported), "failed elector fsync ")
		if n > len(synced) {
			if err != nil || failed != "" {
				t.Errorf("after all of them: %v, %q, failed %q", err, said, failed)
			}
			break
		}
		what, want := "file", synced[n-1]
		switch {
		case strings.HasSuffix(failed, " "+dir+"\n"):
			what = "directory"
		case strings.HasSuffix(failed, " "+filepath.Dir(dir)+"\n"):
			what = "above"
		}
		if what != want.what || !strings.HasPrefix(string(said), want.call+": ") || !strings.Contains(string(said), "input/output error") || err == nil {
			t.Errorf("fsync %d: %q failed, and the run said %q (%v), want that of a %s in %s", n, failed, said, err, want.what, want.call)
		}
	}
}

func init() { roles["synced"] = runSynced }

// runSynced is a run that serves a tick.
func runSynced(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	r := request("k")
	r.Period = time.Hour
	l, err := s.Acquire(context.Background(), r)
	for range 2 {
		if err == nil {
			time.Sleep(2 * time.Millisecond) // a renewal in the same millisecond would change nothing
			l, err = s.Renew(context.Background(), l)
		}
	}
	if err == nil {
		err = s.Release(context.Background(), l, lease.Result{Ran: true, Success: true})
	}
	return err
}
