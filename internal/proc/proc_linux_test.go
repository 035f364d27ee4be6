package proc

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The clock is the one that goes on while the machine sleeps: in a time namespace
// that is a day ahead on that clock alone, Now is a day ahead.
func TestClockCountsSleep(t *testing.T) {
	const asked = "PROC_TEST_CLOCK"
	if os.Getenv(asked) != "" {
		fmt.Println(Now())
		os.Exit(0)
	}
	slept := []string{"--map-root-user", "--time", "--boottime", "86400", "--fork"}
	if err := exec.Command("unshare", append(slept, "true")...).Run(); err != nil {
		t.Skipf("this machine allows no namespaces: %v", err)
	}
	cmd := exec.Command("unshare", append(slept, os.Args[0], "-test.run=^"+t.Name()+"$")...)
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	there, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	const day, patience = 24 * time.Hour, time.Minute
	if ahead := time.Duration(there - Now()); (ahead - day).Abs() > patience {
		t.Errorf("the clock is %s ahead where the machine has slept for %s", ahead, day)
	}
}

func TestChildrenAreFoundBothWays(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for name, list := range map[string]func(int) ([]int, bool){"children": ChildrenOf, "stat": childrenByParent} {
		if got, all := list(os.Getpid()); !all || !slices.Contains(got, cmd.Process.Pid) {
			t.Errorf("%s: %v (all: %t) lacks %d", name, got, all, cmd.Process.Pid)
		}
	}
	if got, all := ChildrenOf(cmd.Process.Pid); !all || len(got) != 0 {
		t.Errorf("children of a childless process: %v (all: %t)", got, all)
	}
}

func TestAlarm(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	at := Now() + 20_000_000
	a.Set(at)
	if ready := a.Poll(p[0], -1); ready[0] || ready[1] || Now() < at {
		t.Errorf("ready %v at %d ns after the alarm", ready, Now()-at)
	}
	a.Set(Now() + 60_000_000_000) // silent again
	if _, err := syscall.Write(p[1], []byte{0}); err != nil {
		t.Fatal(err)
	}
	if ready := a.Poll(p[0], -1); !ready[0] {
		t.Error("the pipe was not told as readable")
	}
}
