//go:build !linux

package runner

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The reduced guard knows the command's process group. It does not wait for processes that it
// cannot adopt.

// dead fails the test unless the process dies; a zombie is dead.
func dead(t *testing.T, pid int) {
	t.Helper()
	await(t, func() bool {
		state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output() // nobody: status 1
		return len(strings.TrimSpace(string(state))) == 0 || state[0] == 'Z'
	})
}

// tree is a script that leaves processes of its group and writes their process
// ids to its standard output.
const tree = `
trap '' TERM
sh -c 'echo $$; sleep 61; :' &
(sh -c 'echo $$; exec sleep 62' &)
sleep 63 | sleep 64 & echo $!
sleep 65 & echo $!
echo ready
wait
`

// When the command ends, the rest of its group is killed.
func TestOrphansDieWithTheCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	_, reports := start(t, far(), "(sleep 60 & echo $! >>"+file+"); sleep 60 & echo $! >>"+file+"; exit 4")
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 4 {
		t.Errorf("%+v", gone)
	}
	b := must.Read(t, file)
	pids := strings.Fields(b)
	if len(pids) != 2 {
		t.Fatalf("orphans: %q", pids)
	}
	for _, field := range pids {
		pid, err := strconv.Atoi(field)
		must.Succeed(t, err)
		dead(t, pid)
	}
}
