// Package early makes this process a guard before anything else is
// initialised. It is imported for its side effect by the program and by tests
// that start guards.
//
// Go initialises the packages whose imports are ready in the order of their
// import paths. This one needs only syscall, so it comes before os, net and all
// that needs them: a guard, which every run starts, does not wait for their
// initialisation.
package early

import "github.com/leaderrun/leaderrun/internal/guard"

func init() { guard.Dispatch() }
