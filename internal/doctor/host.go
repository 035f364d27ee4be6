package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
)

// tasksNeeded is enough for the threads of elector and guard, of which ten each were
// observed, and a small command.
const tasksNeeded = 32

// Tasks checks that the control group has room for the processes of a run. mounted is the
// mount point of cgroup v2, usually /sys/fs/cgroup; membership is /proc/self/cgroup. It
// returns nothing for cgroup v1 or if there is no limit.
func Tasks(mounted, membership string) []lease.Finding {
	group, ok := groupIn(mounted, membership)
	if !ok {
		return nil
	}
	most, errMost := numberIn(filepath.Join(group, "pids.max"))
	now, errNow := numberIn(filepath.Join(group, "pids.current"))
	if errMost != nil || errNow != nil { // "max" is not a number: no limit
		return nil
	}
	text := fmt.Sprintf("%d of %d tasks in use", now, most)
	if most-now < tasksNeeded {
		return []lease.Finding{lease.Warned("cgroup", text, "raise TasksMax= of the unit, or the pids limit of the container")}
	}
	return []lease.Finding{lease.Passed("cgroup", text)}
}

// Processor checks that the control group's limit of processor time leaves enough for a guard that has
// to kill a busy tree, which is in the same group, or that the TTL has a kill margin for it. The first
// arguments are those of Tasks.
func Processor(mounted, membership string, ttl time.Duration) []lease.Finding {
	const enough = 0.5               // with a quarter kills took up to 0.84 s, with a tenth 2 s
	const longTTL = 90 * time.Second // its kill margin is 3 s
	group, _ := groupIn(mounted, membership)
	text, _ := os.ReadFile(filepath.Join(group, "cpu.max"))
	var quota, period float64
	if n, _ := fmt.Sscan(string(text), &quota, &period); n < 2 || quota >= enough*period || ttl >= longTTL { // "max" is not a number: no limit
		return nil
	}
	return []lease.Finding{lease.Warned("processor", fmt.Sprintf("leaderrun and its command share %.2f of a processor: a busy tree may be killed too late", quota/period),
		"raise limits.cpu of the container, or CPUQuota= of the unit, to half a processor, or use a --ttl of 90s or more")}
}

// groupIn returns the directory of this process's control group in cgroup v2.
func groupIn(mounted, membership string) (dir string, ok bool) {
	text, _ := os.ReadFile(membership)
	group, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "0::")
	return filepath.Join(mounted, group), ok
}

func numberIn(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// Guard runs the program at path, which must do nothing and end soon, under a guard like
// a run. The errors are the runner's.
func Guard(path string, argv ...string) error {
	const limit = 5 * time.Second
	commands := runner.New(path, append([]string{path}, argv...))
	defer commands.Close()
	gone := make(chan error, 1)
	commands.Start(runner.Now()+limit, runner.Now()+limit, nil, "", func(r runner.Report) {
		if r.Kind == runner.Failed || r.Kind == runner.Gone {
			gone <- r.Err
		}
	})
	return <-gone
}

// Children checks that the kernel lists the children of a process, as
// /proc/thread-self/children does, or that the TTL has a kill margin for a search.
func Children(list string, ttl time.Duration) []lease.Finding {
	if _, err := os.Stat(list); !os.IsNotExist(err) || ttl >= time.Minute {
		return nil
	}
	return []lease.Finding{lease.Warned("kernel", "it is built without CONFIG_PROC_CHILDREN: each round of a kill reads all of /proc, which takes long where there are many processes",
		"use a kernel that has it, or a --ttl of a minute or more")}
}

// cronPath is what cron gives its commands on most systems: crontab(5).
var cronPath = []string{"/usr/bin", "/bin"}

// Path checks that cron finds the program at self.
func Path(self string) []lease.Finding {
	if slices.Contains(cronPath, filepath.Dir(self)) {
		return nil
	}
	return []lease.Finding{lease.Warned("path", "cron does not look for commands in "+filepath.Dir(self), "write "+self+" in crontabs")}
}
