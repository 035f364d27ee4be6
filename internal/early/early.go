// Package early makes this process a guard before anything else is
// initialised. It is imported for its side effect by the program and by tests
// that start guards.
//
// Go initialises the packages whose imports are ready in the order of their
// import paths. This one needs only syscall, so it comes before os, net and all
// that needs them: a guard is ready in a fraction of the time that the rest of
// the program takes to initialise, and it is paid at every start.
package early

import "github.com/leaderrun/leaderrun/internal/guard"

func init() { guard.Dispatch() }
