package run

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A lease file that cannot be updated is reported once.
func TestLeaseFileCannotBeKeptUp(t *testing.T) {
	var said bytes.Buffer
	l := &leaseFile{log: observe.NewLogger(&said, slog.LevelWarn, observe.Form{}), dirs: []string{t.TempDir()}}
	defer l.close()
	l.Observe(campaign.Transition{To: leading(0)})
	renew := func(n int) {
		l.Observe(campaign.Transition{From: leading(time.Duration(n)), To: leading(time.Duration(n + 1))})
		time.Sleep(time.Millisecond) // writes happen in the background
	}
	for n := range 5 {
		renew(n)
	}
	if said.Len() > 0 {
		t.Errorf("it said:\n%s", &said)
	}
	null, err := os.Open(os.DevNull)
	must.Succeed(t, err)
	defer null.Close()
	fds, err := filepath.Glob("/proc/self/fd/*")
	must.Succeed(t, err)
	for _, fd := range fds {
		if file, err := os.Readlink(fd); err == nil && file == l.path() {
			number, err := strconv.Atoi(filepath.Base(fd))
			must.Succeed(t, err)
			must.Succeed(t, syscall.Dup3(int(null.Fd()), number, syscall.O_CLOEXEC))
		}
	}
	for n := 5; said.Len() == 0 && n < 10_000; n++ {
		renew(n)
	}
	for n := range 5 {
		renew(n)
	}
	if strings.Count(said.String(), "the lease file cannot be updated") != 1 {
		t.Errorf("it said:\n%s", &said)
	}
	l.Observe(campaign.Transition{From: leading(0)})
}
