package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Rig takes the place of a test in a program that starts servers: what would end the test ends
// what must.Try does.
type Rig struct {
	testing.TB        // nil: the code of servers calls only what follows
	Addr       string // where servers listen
	Dir        string // for their files
	log        *os.File
	ends       []func()
}

// NewRig returns a rig with its files in dir.
func NewRig(addr, dir string) (*Rig, error) {
	log, err := os.Create(filepath.Join(dir, "servers.log"))
	return &Rig{Addr: addr, Dir: dir, log: log}, err
}

func (r *Rig) Helper()                         {}
func (r *Rig) Context() context.Context        { return context.Background() }
func (r *Rig) Host() string                    { return r.Addr }
func (r *Rig) Output() io.Writer               { return r.log }
func (r *Rig) Cleanup(end func())              { r.ends = append(r.ends, end) }
func (r *Rig) Fatal(args ...any)               { must.Check(errors.New(fmt.Sprint(args...))) }
func (r *Rig) Fatalf(form string, args ...any) { must.Check(fmt.Errorf(form, args...)) }
func (r *Rig) Error(args ...any)               { r.Fatal(args...) }
func (r *Rig) Errorf(form string, args ...any) { r.Fatalf(form, args...) }
func (r *Rig) Skip(args ...any)                { r.Fatal(args...) }

// TempDir makes a folder that servers of other users can read.
func (r *Rig) TempDir() string {
	dir, err := os.MkdirTemp(r.Dir, "server")
	must.Check(err)
	for _, d := range []string{filepath.Dir(r.Dir), r.Dir, dir} {
		must.Check(os.Chmod(d, 0o755)) //nolint:gosec // nothing in it is secret
	}
	return dir
}

// Close ends the servers.
func (r *Rig) Close() error {
	var all error
	for _, end := range slices.Backward(r.ends) {
		all = errors.Join(all, must.Try(end))
	}
	return errors.Join(all, r.log.Close())
}
