//go:build linux

package program

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The guard runs before the packages are initialised that only the elector
// needs. One import too many in proc, guard or early undoes that.
func TestGuardStartsEarly(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("leaderrun")
	cmd.Env = append(os.Environ(), guard.Marker+"=1", "GODEBUG=inittrace=1")
	trace, _ := cmd.CombinedOutput() // a guard without pipes refuses to work
	const most = 14                  // 13 with Go 1.26, of more than a hundred
	inits := strings.Count(string(trace), "init ")
	if code := cmd.ProcessState.ExitCode(); inits == 0 || inits > most || code != 125 {
		t.Errorf("%d packages were initialised before the guard ended with %d, want at most %d and 125:\n%s", inits, code, most, trace)
	}
}

// Threads count towards the user's process limit, and each takes time at every start.
func TestThreadsOfARun(t *testing.T) {
	t.Parallel()
	out, err := leaderrun(memory(t), "--", "sh", "-c", `read -r _ _ _ elector _ </proc/$PPID/stat; ls /proc/$elector/task | wc -l; ls /proc/$PPID/task | wc -l`).Output()
	var elector, guard int
	if _, scanErr := fmt.Sscan(string(out), &elector, &guard); err != nil || scanErr != nil {
		t.Fatalf("%q, %v, %v", out, err, scanErr)
	}
	const mostElector, mostGuard = 18, 11 // 16 or 17 and 7 to 10, by the order in which they start
	if elector > mostElector || guard > mostGuard {
		t.Errorf("the elector has %d threads and the guard %d, want at most %d and %d", elector, guard, mostElector, mostGuard)
	}
}

// budget is what packages may allocate.
type budget struct {
	packages string
	bytes    int
}

// budgets are what every start may allocate before main, in bytes, by the start of the
// packages' paths: about a tenth more than the versions in go.mod do. Most of it is
// for what that run does not use.
var budgets = []budget{
	{"github.com/leaderrun/leaderrun/", 21_000},
	{"github.com/redis/go-redis/", 15_000},
	{"github.com/jackc/", 7_500},  // the Postgres store
	{"golang.org/x/text/", 9_500}, // for pgconn
	{"github.com/go-sql-driver/mysql", 8_500},
	{"filippo.io/edwards25519", 600},
	{"github.com/subosito/gotenv", 33_000}, // for viper
	{"github.com/spf13/cast", 7_000},       // for viper
	{"github.com/spf13/", 2_500},
	{"github.com/pelletier/go-toml", 100},
	{"github.com/fsnotify/", 100},
	{"go.yaml.in/yaml/", 28_500},
	{"github.com/robfig/cron", 1_100},
	{"golang.org/x/sys/", 2_100},
	{"", 86_000}, // Go's own
}

// Each dependency is paid for by every start, whether it is used or not. Bytes are
// counted, since they are the same on every machine and under every load.
func TestEachDependencyHasABudget(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("leaderrun", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	must.Succeed(t, err)
	inits := regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(string(trace), -1)
	if len(inits) < 100 {
		t.Fatalf("%d packages are initialised, there must be more:\n%s", len(inits), trace)
	}
	used := make([]int, len(budgets))
	for _, init := range inits {
		path := init[1]
		if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
			path = "" // Go's own
		}
		i := slices.IndexFunc(budgets, func(b budget) bool { return strings.HasPrefix(path, b.packages) && (b.packages == "") == (path == "") })
		if i < 0 {
			t.Errorf("%s is initialised by every start and has no budget", path)
			continue
		}
		bytes, _ := strconv.Atoi(init[2])
		used[i] += bytes
	}
	for i, b := range budgets {
		if used[i] > b.bytes {
			t.Errorf("%q allocates %d bytes before main, at every start; its budget is %d", b.packages, used[i], b.bytes)
		}
	}
}
