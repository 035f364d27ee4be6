// Package oneprocessor limits the Go runtime to one processor, before other packages are
// initialised. The program imports it for this side effect, and tests do not. A guard never
// comes here: package early has its own settings for it.
//
// leaderrun waits more than it computes. On a second processor the runtime looks for work
// that is not there, and starts threads for that: a quarter of the time of a start
// (docs/performance.md). With one, and a call that blocks, other goroutines go on after 10 ms
// at most, when the runtime notices (sysmon in runtime/proc.go). It does not notice a fork
// whose exec hangs: runs with hooks have two processors (package runner).
package oneprocessor

import (
	"runtime"

	_ "github.com/leaderrun/leaderrun/internal/early" // comes first
)

func init() { runtime.GOMAXPROCS(1) }
