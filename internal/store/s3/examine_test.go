//go:build linux

package s3

import (
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func examine(t *testing.T, s *Store) []lease.Finding {
	return s.Examine(bounded(t), time.Second, time.Second)
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	for range 2 {
		all := examine(t, s)
		networktest.Finds(t, networktest.Found(t, all, "server"), lease.Fine, "bucket leases, region us-east-1")
		networktest.Finds(t, networktest.Found(t, all, "conditions"), lease.Fine, "of 8 writes at a time one was taken, 5 times")
		networktest.Finds(t, networktest.Found(t, all, "clocks"), lease.Fine, "")
	}
	if _, err := os.Stat(b.file("doctor")); !os.IsNotExist(err) {
		t.Errorf("what the doctor wrote is left: %v", err)
	}
	networktest.FindsNoServer(t, examine(t, openAs(t, Options{URL: at("127.0.0.1:1")}, keys)))
}

// A server that compares before it writes, and writes whatever others have written meanwhile, lets
// several writes pass. A run may not notice that; the doctor does.
func TestDoctorFindsRaces(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for range 5 {
		finding := networktest.Found(t, examine(t, openAs(t, Options{URL: at(b.Racy)}, keys)), "conditions")
		networktest.Finds(t, finding, lease.Bad, "with one condition, it took")
	}
}
