//go:build linux

package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

var (
	killLoad  = flag.Int("killload", 0, "let TestKillTime have so many busy processes beside it")
	killCount = flag.Int("killcount", 5, "let TestKillTime kill each tree so often")
	killUser  = flag.Bool("killuser", false, "let TestKillTime run leaderrun as an ordinary user")
	killWide  = flag.Int("killwide", 0, "let TestKillTime kill a tree of so many processes side by side, and no other")
)

// trees are hard to kill one process at a time.
var trees = []string{"deep 40", "fork 12", "fork 40", "fork 12 apart"}

// TestKillTime kills elector or guard, and measures how long the last process of the tree
// survives. The limit is the kill margin at a TTL of 15 s, the smallest there is, except for
// a tree of -killwide; -v shows the figures.
func TestKillTime(t *testing.T) {
	chains, user := script.Build(t, "internal/tools/chains"), 0
	if *killUser {
		bin := somebodysPrograms(t)
		chains, user = bin+"/chains", somebody
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	}
	for range *killLoad {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		busy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that is killed leaves no load
		must.Succeed(t, busy.Start())
		t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	}
	const margin = 500 * time.Millisecond
	kinds := trees
	if *killWide > 0 {
		kinds = []string{fmt.Sprint("wide ", *killWide)}
	}
	for _, tree := range kinds {
		for _, victim := range []string{"elector", "guard"} {
			t.Run(tree+"/"+victim, func(t *testing.T) {
				var took []time.Duration
				for range *killCount {
					took = append(took, killTime(t, user, "exec "+chains+" "+tree, victim))
				}
				slices.Sort(took)
				median, most := took[len(took)/2], took[len(took)-1]
				t.Logf("median %s, most %s", median.Round(time.Millisecond/10), most.Round(time.Millisecond/10))
				if median > margin && *killWide == 0 {
					t.Errorf("the tree lived for %s", took)
				}
			})
		}
	}
}

func killTime(t *testing.T, user int, command, victim string) time.Duration {
	dir := memory(t)
	fifo := filepath.Join(dir, "fifo")
	must.Succeed(t, syscall.Mkfifo(fifo, 0o600))
	elector := leaderrun(dir, "-q", "--ttl=15s", "--", "bash", "-c", command+" >"+fifo)
	if user != 0 {
		elector.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		must.Succeed(t, errors.Join(os.Chown(dir, user, user), os.Chown(fifo, user, user)))
	}
	must.Succeed(t, elector.Start())
	defer func() { _ = elector.Process.Kill(); _ = elector.Wait() }()
	guard := 0
	took := untilClosed(t, fifo, func() int {
		guard = victimOf(t, elector, "guard")
		return victimOf(t, elector, victim)
	})
	// Thousands of zombies are left, which the process that killed the tree reaps. The next
	// tree needs their ids, and process 1 might take long.
	status(t, elector)
	eventually(t, "the guard has ended", func() bool {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guard)) // who has ended has none
		return len(argv) == 0
	})
	return took
}

func victimOf(t *testing.T, elector *exec.Cmd, victim string) (pid int) {
	if victim == "guard" {
		return childOf(t, elector.Process.Pid)
	}
	return elector.Process.Pid
}

// untilClosed waits until the tree that writes to the fifo is complete, kills the victim,
// and returns how long the last process of the tree survived.
func untilClosed(t *testing.T, fifo string, victim func() (pid int)) time.Duration {
	held, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0) // its end is that of the last process
	must.Succeed(t, err)
	defer held.Close()
	eventually(t, "the tree stands", func() bool { n, _ := held.Read(make([]byte, len("ready\n"))); return n > 0 })
	time.Sleep(20 * time.Millisecond) // it is well under way
	pid := victim()
	begun := proc.Now()
	send(t, pid, syscall.SIGKILL)
	if rest, err := io.ReadAll(held); err != nil || len(rest) > 0 {
		t.Fatalf("%q (%v)", rest, err)
	}
	return time.Duration(proc.Now() - begun)
}
