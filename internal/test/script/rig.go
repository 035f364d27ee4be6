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
	failing
	Addr string // where servers listen
	Dir  string // for their files
	log  *os.File
	ends []func()
}

// failing fails as must.Check does.
type failing struct{ testing.TB } // nil: the code of servers calls only what Rig has

func (failing) Helper()                          {}
func (failing) Context() context.Context         { return context.Background() }
func (failing) Fatal(args ...any)                { must.Check(errors.New(fmt.Sprint(args...))) }
func (failing) Fatalf(form string, args ...any)  { must.Check(fmt.Errorf(form, args...)) }
func (f failing) Error(args ...any)              { f.Fatal(args...) }
func (f failing) Errorf(form string, arg ...any) { f.Fatalf(form, arg...) }
func (f failing) Skip(args ...any)               { f.Fatal(args...) }

// NewRig returns a rig with its files in dir, which is the rig's own.
func NewRig(addr, dir string) (*Rig, error) {
	log, err := os.Create(filepath.Join(dir, "servers.log"))
	return &Rig{Addr: addr, Dir: dir, log: log}, err
}

// Host is where servers listen.
func (r *Rig) Host() string { return r.Addr }

// Output gets what servers say.
func (r *Rig) Output() io.Writer { return r.log }

// Cleanup adds what Close does.
func (r *Rig) Cleanup(end func()) { r.ends = append(r.ends, end) }

// TempDir makes a folder that servers of other users can read.
func (r *Rig) TempDir() string {
	dir, err := os.MkdirTemp(r.Dir, "server")
	must.Check(err)
	for _, d := range []string{r.Dir, dir} {
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
