// Package oneprocessor limits the Go runtime to one processor, before other packages are
// initialised. The program imports it for this side effect; tests do not. A guard never gets
// here: it has its own settings (guard.Settings).
//
// leaderrun waits more than it computes. With a second processor the runtime looks for work
// in vain and starts threads for that, which takes a quarter of the time of a start
// (docs/performance.md). With one processor, if a call blocks, other goroutines go on after at
// most 10 ms, when the runtime notices (sysmon in runtime/proc.go). It does not notice that the
// exec of a hook hangs, so runs with hooks have two processors (runner.Runner.ForHooks).
package oneprocessor

import (
	"runtime"

	_ "github.com/leaderrun/leaderrun/internal/early" // comes first
)

func init() { runtime.GOMAXPROCS(1) }
