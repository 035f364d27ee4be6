// Package must ends a test at the first call that fails.
package must

import "os"

// T is the part of testing.TB that it needs, so that programs can call it, too.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Succeed ends the test if a call has returned an error.
func Succeed(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Read returns the text of a file.
func Read(t T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	Succeed(t, err)
	return string(text)
}
