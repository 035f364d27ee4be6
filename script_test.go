//go:build linux

package main

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/scripttest"
)

// TestScripts runs testdata/script: the scripts at its top once per store, each
// folder below with the store it is about. The helpers of the scripts are in
// testdata/script/bin.
func TestScripts(t *testing.T) {
	scripttest.Install(t, ".", "testdata/script/bin")
	groups := []struct {
		name, dir string
		store     scripttest.Store
	}{
		{"file", "testdata/script", scripttest.File},
		{"redis", "testdata/script", scripttest.Redis},
		{"postgres", "testdata/script", scripttest.Postgres},
		{"redis-only", "testdata/script/redis", scripttest.Redis},
		{"postgres-only", "testdata/script/postgres", scripttest.Postgres},
		{"cli", "testdata/script/cli", scripttest.File},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			scripttest.Run(t, g.dir, g.store)
		})
	}
}
