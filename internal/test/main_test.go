// Package test checks the rules of this module: what each package may import, whether links
// and patches of mutants are valid, how releases are made.
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
