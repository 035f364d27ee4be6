//go:build linux

package main

import "github.com/leaderrun/leaderrun/internal/test/script"

// rig is where a worker has its servers, which are those of tests.
type rig struct {
	*script.Rig
	worker int
	hosts  bool // servers may have their own hosts
}
