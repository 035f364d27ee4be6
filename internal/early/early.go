// Package early turns this process into a guard, if it was started as one, before other
// packages are initialised. It is imported for its side effect by the program and by
// tests that start guards.
//
// Go initialises packages whose imports are initialised in the order of their import
// paths. This package needs only syscall, so it comes before os, net and everything that
// needs them. Every run starts a guard, which does not have to wait for them.
package early

import "github.com/leaderrun/leaderrun/internal/guard"

func init() { guard.Dispatch() }
