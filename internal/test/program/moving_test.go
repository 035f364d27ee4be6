//go:build linux

package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// pair is two hosts of a team that moves to leaderrun, as docs/migration.md says: old, wrapped or
// moved. They lead in turn, by a lock of the form that the program rival in testdata/script/bin
// knows, by leaderrun's, or by both.
type pair struct {
	*testing.T
	form, lock string
	kinds      [2]string
	dir        string
	env        []string
	hosts      []*exec.Cmd // all that were started
}

const movingTTL = 3 * time.Second // of all locks here, as in the program rival

// atWork is the command of all hosts: it notes that it leads, and if it is not alone.
const atWork = `exec 9>>alone; flock -n 9 || echo "$0" >>overlaps; echo "$0" >>led; exec sleep 600`

// start starts the next host.
func (p *pair) start() {
	p.Helper()
	n := len(p.hosts)
	kind := p.kinds[n%2]
	line := []string{"bash", "-c", atWork, fmt.Sprint(kind, n)}
	if kind != "moved" {
		line = append([]string{"rival", p.form, p.lock}, line...)
	}
	if kind != "old" {
		line = append([]string{"leaderrun", "-vv", "--key=" + filepath.Base(p.dir), "--ttl=" + movingTTL.String(), "--wait=forever", "--"}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := os.Create(p.said(n))
	must.Succeed(p, err)
	defer said.Close()
	cmd.Stderr = said
	must.Succeed(p, cmd.Start())
	p.hosts = append(p.hosts, cmd)
	p.Cleanup(func() {
		p.end(n, true)
		_ = cmd.Wait()
	})
}

func (p *pair) said(n int) string { return filepath.Join(p.dir, fmt.Sprint("said.", n)) }

// end ends a host: it is killed, or hands over.
func (p *pair) end(n int, killed bool) {
	pid, sig := p.hosts[n].Process.Pid, syscall.SIGTERM
	if killed {
		sig = syscall.SIGKILL
		if p.kinds[n%2] == "old" {
			pid = -pid // all that runs there; what leaderrun has started is its guard's
		}
	}
	_ = syscall.Kill(pid, sig) // it is reaped at the test's end
}

// lines are those of a file in which the commands note something.
func (p *pair) lines(file string) []string {
	text, _ := os.ReadFile(filepath.Join(p.dir, file)) // missing is as good as empty
	return strings.Fields(string(text))
}

// leads waits until host n leads. A host of a busy machine may lose its lease: that is a change,
// too.
func (p *pair) leads(n int) {
	p.Helper()
	eventually(p.T, fmt.Sprint(p.form, p.kinds, " host ", n, " leads"), func() bool { return len(p.lines("led")) > n })
}

func (p *pair) standsBy(n int) {
	p.Helper()
	eventually(p.T, fmt.Sprint(p.form, p.kinds, " host ", n, " stands by"), func() bool {
		return strings.Contains(must.Read(p, p.said(n)), "denied") || len(p.lines("led")) > n
	})
}

// TestMovingHostByHost lets two hosts of the same or of neighbouring steps of the move lead in
// turn. They renew, hand over and are killed, and no two are at work at once.
func TestMovingHostByHost(t *testing.T) {
	t.Parallel()
	redis := "redis://" + script.StartRedis(t).Addr
	postgres := script.StartPostgres(t, map[string]string{"pg_hba.conf": "host all all 127.0.0.1/32 trust\n"})
	if out, err := postgres.Do("CREATE TABLE leader_election (service_name text PRIMARY KEY, leader_id text, term bigint, last_heartbeat timestamptz)"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env := append(os.Environ(), "REDIS="+redis, "LEADERRUN_STORE="+redis, "DATABASE="+postgres.URL)
	var pairs []*pair
	add := func(form, lock string, kinds ...string) *pair {
		dir := t.TempDir()
		p := &pair{T: t, form: form, lock: lock + filepath.Base(dir), kinds: [2]string(kinds), dir: dir, env: env}
		pairs = append(pairs, p)
		return p
	}
	for range 2 { // at leaderrun's own key: no host needs two locks
		for _, form := range []string{"LeaderService", "createLeader", "setIfAbsent"} {
			add(form, "leaderrun:leader:", "old", "moved")
			add(form, "leaderrun:leader:", "moved", "old")
		}
	}
	for _, form := range []string{"flock", "table"} {
		add(form, "former:", "old", "wrapped")
		add(form, "former:", "wrapped", "old")
		add(form, "former:", "wrapped", "wrapped")
		add(form, "former:", "wrapped", "moved")
		add(form, "former:", "moved", "wrapped")
	}
	each := func(do func(p *pair)) {
		for _, p := range pairs {
			do(p)
		}
	}
	each((*pair).start)
	each(func(p *pair) { p.leads(0) })
	for n, killed := range []bool{false, true, true} {
		each((*pair).start)
		each(func(p *pair) { p.standsBy(n + 1) })
		if n == 0 { // hosts of each kind renew
			time.Sleep(movingTTL + movingTTL/6)
		}
		each(func(p *pair) { p.end(n, killed) })
		each(func(p *pair) { p.leads(n + 1) })
	}
	each(func(p *pair) {
		if led, overlaps := p.lines("led"), p.lines("overlaps"); len(overlaps) > 0 {
			t.Errorf("%s%s: %s have led, not alone: %s\n%s", p.form, p.kinds, led, overlaps, output(t, "tail", "-vn", "+1", p.said(0), p.said(1), p.said(2), p.said(3)))
		}
	})

	// Without the step between.
	hasty := add("table", "former:", "old", "moved")
	hasty.start()
	hasty.leads(0)
	hasty.start()
	hasty.leads(1)
	if len(hasty.lines("overlaps")) == 0 {
		t.Error("two hosts that share no lock are not seen to overlap")
	}
}
