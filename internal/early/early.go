// Package early turns this process into a guard, if it was started as one, before other
// packages are initialised. The program, and tests that start guards, import it for this
// side effect.
//
// Go initialises a package after its imports; of the packages that are ready, the first one
// by import path. This package imports only what needs syscall alone, so it comes before os,
// net and everything that needs them: the guard of a run does not wait for these.
package early

import "github.com/leaderrun/leaderrun/internal/guard"

func init() { guard.Dispatch() }
