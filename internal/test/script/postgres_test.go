//go:build linux

package script

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// another is the variable that makes TestPostgresOfAnother run, which waits to be killed; with
// the value "frozen" its server is frozen.
const another = "SCRIPTTEST_ANOTHER"

// started is what that test prints.
type started struct {
	Dir  string
	Pids []int
}

func TestPostgresEndsWithTheTestProcess(t *testing.T) {
	needPostgres(t)
	for _, how := range []string{"running", "frozen"} {
		t.Run(how, func(t *testing.T) {
			again := exec.Command(os.Args[0], "-test.run=^TestPostgresOfAnother$")
			again.Env = append(os.Environ(), another+"="+how)
			out, err := again.StdoutPipe()
			must.Succeed(t, err)
			must.Succeed(t, again.Start())
			var s started
			line, err := bufio.NewReader(out).ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &s)
			}
			_ = again.Process.Kill()
			_ = again.Wait()
			if err != nil || len(s.Pids) < 2 {
				t.Fatalf("the other test process says %q, %v", line, err)
			}
			defer (&PostgresServer{process: process{t: t, Dir: s.Dir}}).clean()
			if !await(func() bool { return !slices.ContainsFunc(s.Pids, Lives) }) {
				t.Errorf("alive without the test process:\n%s", describe(s.Pids))
			}
		})
	}
}

// A start that failed, and a restart, end backends, too.
func TestPostgresEndsWithItsBackends(t *testing.T) {
	s := StartPostgres(t, nil)
	s.Stop() // otherwise the backends notice the end of the server, and end by themselves
	all := s.all()
	if s.Kill(); slices.ContainsFunc(all, Lives) {
		t.Errorf("alive after the server:\n%s", describe(all))
	}
}

func TestPostgresOfAnother(t *testing.T) {
	how := os.Getenv(another)
	if how == "" {
		return // only run by TestPostgresEndsWithTheTestProcess
	}
	s := StartPostgres(t, nil)
	if how == "frozen" {
		s.Stop()
	}
	children, _ := proc.ChildrenOf(s.Pid())
	must.Succeed(t, json.NewEncoder(os.Stdout).Encode(started{s.Dir, append(children, s.Pid())}))
	time.Sleep(patience)
}
