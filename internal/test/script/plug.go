//go:build linux

package script

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// plug is the command store.
func plug(ts *testscript.TestScript, args []string) {
	s := of(ts)
	dir := filepath.Join(s.workDir, storeDir)
	away := dir + ".away"
	actions := map[string]func(){
		"stop":    func() { s.keepTurns(ts, dir) },
		"cont":    s.endTurns,
		"kill":    func() { ts.Check(os.Rename(dir, away)) },
		"restart": func() { ts.Check(os.Rename(away, dir)) },
	}
	if s.server != nil {
		actions = map[string]func(){"stop": s.server.Stop, "cont": s.server.Cont, "kill": s.server.Kill, "restart": s.server.Restart}
	}
	switch {
	case len(args) == 1 && actions[args[0]] != nil:
		actions[args[0]]()
	case len(args) > 1 && args[0] == "clock" && s.server != nil:
		s.server.SetClock(strings.Join(args[1:], " "))
	default:
		ts.Fatalf("usage: store stop|cont|kill|restart, or store clock CLOCK")
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
