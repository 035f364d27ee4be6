//go:build linux

package script

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// plug is the command store: it does to any store what redis does to Redis.
func plug(ts *testscript.TestScript, args []string) {
	actions := of(ts).plugs(ts)
	if len(args) != 1 || actions[args[0]] == nil {
		ts.Fatalf("usage: store stop|cont|kill|restart")
	}
	actions[args[0]]()
}

func (s *script) plugs(ts *testscript.TestScript) map[string]func() {
	switch {
	case s.redis != nil:
		return map[string]func(){"stop": s.redis.Stop, "cont": s.redis.Cont, "kill": s.redis.Kill, "restart": s.redis.Restart}
	case s.postgres != nil:
		return map[string]func(){"stop": s.postgres.Stop, "cont": s.postgres.Cont, "kill": s.postgres.Kill, "restart": s.postgres.Restart}
	case s.mariadb != nil:
		return map[string]func(){"stop": s.mariadb.Stop, "cont": s.mariadb.Cont, "kill": s.mariadb.Kill, "restart": s.mariadb.Restart}
	case s.etcd != nil:
		return map[string]func(){"stop": s.etcd.Stop, "cont": s.etcd.Cont, "kill": s.etcd.Kill, "restart": s.etcd.Restart}
	case s.s3 != nil:
		return map[string]func(){"stop": s.s3.Stop, "cont": s.s3.Cont, "kill": s.s3.Kill, "restart": s.s3.Restart}
	case s.api != nil:
		return map[string]func(){"stop": s.api.Stop, "cont": s.api.Cont, "kill": s.api.Kill, "restart": s.api.Restart}
	}
	dir := filepath.Join(s.workDir, storeDir)
	away := dir + ".away"
	return map[string]func(){
		"stop":    func() { s.keepTurns(ts, dir) },
		"cont":    s.endTurns,
		"kill":    func() { ts.Check(os.Rename(dir, away)) },
		"restart": func() { ts.Check(os.Rename(away, dir)) },
	}
}

// keepTurns holds the turn of every key, like a process that was stopped during its turn.
func (s *script) keepTurns(ts *testscript.TestScript, dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("the store has no keys yet")
	}
	ts.Defer(s.endTurns)
	for _, name := range names {
		f, err := os.Open(name)
		ts.Check(err)
		s.turns = append(s.turns, f)
		ts.Check(unix.Flock(int(f.Fd()), unix.LOCK_EX)) // others keep it for milliseconds
	}
}

func (s *script) endTurns() {
	for _, f := range s.turns {
		f.Close()
	}
	s.turns = nil
}
