//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// rig is where a worker has its servers, which are the servers of tests (package script). It
// takes the place of a test: what would end the test ends what try does.
type rig struct {
	testing.TB // nil: the code of servers calls only what follows
	worker     int
	addr       string // of all servers that need no host of their own
	dir        string
	hosts      bool     // servers may have their own hosts
	log        *os.File // of the servers
	ends       []func()
}

func (r *rig) Helper()                         {}
func (r *rig) Context() context.Context        { return context.Background() }
func (r *rig) Host() string                    { return r.addr }
func (r *rig) Output() io.Writer               { return r.log }
func (r *rig) Cleanup(end func())              { r.ends = append(r.ends, end) }
func (r *rig) Fatal(args ...any)               { check(errors.New(fmt.Sprint(args...))) }
func (r *rig) Fatalf(form string, args ...any) { check(fmt.Errorf(form, args...)) }
func (r *rig) Error(args ...any)               { r.Fatal(args...) }
func (r *rig) Errorf(form string, args ...any) { r.Fatalf(form, args...) }
func (r *rig) Skip(args ...any)                { r.Fatal(args...) }

// TempDir makes a folder that servers of other users can read.
func (r *rig) TempDir() string {
	dir, err := os.MkdirTemp(r.dir, "server")
	check(err)
	for _, d := range []string{filepath.Dir(r.dir), r.dir, dir} {
		check(os.Chmod(d, 0o755)) //nolint:gosec // nothing in it is secret
	}
	return dir
}

// close ends the servers.
func (r *rig) close() {
	for _, end := range slices.Backward(r.ends) {
		if err := try(end); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
	}
}

// failure is what check panics with.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// try returns the error that ends do.
func try(do func()) (err error) {
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
