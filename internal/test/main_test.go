// Package test holds the module against its own rules: what imports what, and
// whether the mutants still apply.
package test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the module's root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
