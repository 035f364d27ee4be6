//go:build linux

package program

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// When leaderrun alone is killed, the next one leads without waiting for the TTL, which is longer
// than this test may take.
func TestDeathsOfLeaderrunAlone(t *testing.T) {
	t.Parallel()
	f := &rivals{t: t, dir: t.TempDir(), store: "redis://" + script.StartRedis(t).Addr, key: "k", ttl: time.Hour}
	leader := f.candidate()
	f.started(1, patience)
	for i := range 20 {
		next := f.candidate("--wait=forever")
		must.Succeed(t, leader.Process.Kill())
		f.started(i+2, patience)
		leader = next
	}
	f.oneAtATime()
}

// A lease that was lost before is the next holder's, and stays so.
func TestDeathAfterALoss(t *testing.T) {
	t.Parallel()
	f := &rivals{t: t, dir: t.TempDir(), store: "redis://" + script.StartRedis(t).Addr, key: "k", ttl: time.Hour}
	leader := f.candidate()
	f.started(1, patience)
	send(t, leader.Process.Pid, syscall.SIGSTOP)
	ask := func(args ...string) error {
		return exec.Command("leaderrun", append(args, "--store="+f.store, "--key="+f.key)...).Run()
	}
	must.Succeed(t, ask("release", "--force", "--now"))
	f.candidate()
	f.started(2, patience)
	guard := childOf(t, leader.Process.Pid)
	must.Succeed(t, leader.Process.Kill())
	eventually(t, "guard and ender are gone", func() bool { return syscall.Kill(guard, 0) != nil || !script.Lives(guard) })
	if err := ask("status"); err != nil {
		t.Errorf("the key is not held any more: %v", err)
	}
}
