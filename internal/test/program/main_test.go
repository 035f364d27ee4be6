//go:build linux

// Package program tests leaderrun as a whole: as it is linked and shipped, with real
// processes, terminals and servers. It also tests the documents and the files of deploy.
package program

import (
	"os"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

// TestMain links the program once for all tests. They run in the module's root.
func TestMain(m *testing.M) { os.Exit(script.Main(m, "../../..")) }
