// Package must ends a test at the first call that fails.
package must

import (
	"fmt"
	"os"
	"time"
)

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

// Patience is how long tests wait for anything.
const Patience = 30 * time.Second

// Await waits until ok is true.
func Await(t T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(fmt.Sprintf("waited %s in vain for %s", Patience, what))
		}
	}
}

// failure is what Check panics with.
type failure struct{ error }

// Check is Succeed for programs: it ends what Try does.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Try returns the error that has ended do.
func Try(do func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	do()
	return nil
}
