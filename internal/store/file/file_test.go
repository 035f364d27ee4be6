package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestContract(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leasetest.Run(t, leasetest.Harness{
		Open:     func(t *testing.T) lease.Store { return open(t, dir) },
		Unit:     400 * time.Millisecond,
		Wakes:    true,
		WakesAll: true,
		Wipe:     func(t *testing.T) { wipe(t, dir) },
		Stall:    func(t *testing.T, key string) func() { return hang(t, file(t, dir, key, ".json")) },
		Damage:   damages(dir),
	})
}

func TestHistories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leasetest.Histories(t, leasetest.Harness{Open: func(t *testing.T) lease.Store { return open(t, dir) }})
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(private(t, dir))
	must.Succeed(t, err)
	return s
}

// private sets the mode of a directory of t.TempDir, which depends on the umask.
func private(t testing.TB, dir string) string {
	t.Helper()
	if err := os.Chmod(dir, 0o700); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return dir
}

// hang makes a file one of a disk that hangs: to open a fifo blocks for ever.
func hang(t *testing.T, path string) (resume func()) {
	must.Succeed(t, os.Rename(path, path+".kept"))
	must.Succeed(t, unix.Mkfifo(path, 0o600))
	return func() {
		end, err := os.OpenFile(path, os.O_RDWR, 0) // lets the calls that were given up go on
		must.Succeed(t, err)
		must.Succeed(t, os.Rename(path+".kept", path))
		must.Succeed(t, end.Close())
	}
}

func wipe(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must.Succeed(t, err)
	for _, f := range files {
		must.Succeed(t, os.RemoveAll(f))
	}
}

// keepBusy holds the turn of key, like a process that was stopped during its turn.
func keepBusy(t *testing.T, dir, key string) (resume func()) {
	f, err := os.OpenFile(file(t, dir, key, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	must.Succeed(t, err)
	must.Succeed(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return func() { _ = f.Close() }
}

func file(t *testing.T, dir, key, extension string) string {
	t.Helper()
	name, err := fileName(key)
	must.Succeed(t, err)
	return filepath.Join(dir, name+extension)
}

// damages are files that leaderrun does not write; package rules tests what else no state may be.
func damages(dir string) []leasetest.Damage {
	contents := func(name, content string) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			write(t, file(t, dir, key, ".json"), strings.ReplaceAll(content, "KEY", key))
		}}
	}
	instead := func(name, extension string, put func(path string) error) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			path := file(t, dir, key, extension)
			_ = os.Remove(path)
			must.Succeed(t, put(path))
		}}
	}
	link := func(path string) error { return os.Symlink(filepath.Join(dir, "elsewhere"), path) }
	mkdir := func(path string) error { return os.Mkdir(path, 0o700) }
	return []leasetest.Damage{
		contents("empty", ""),
		contents("zeros", strings.Repeat("\x00", 500)),
		contents("torn", `{"version":1,"key":"KEY","token":12`),
		contents("two documents", `{"version":1,"key":"KEY","token":0}{"version":1,"key":"KEY","token":0}`),
		contents("another form", `{"version":2,"key":"KEY","token":0}`),
		contents("another key", `{"version":1,"key":"KEYX","token":0}`),
		contents("too large", `{"version":1,"key":"KEY","token":5,"x":"`+strings.Repeat("x", maxSize)+`"}`),
		instead("a symbolic link for the state", ".json", link),
		instead("a directory for the state", ".json", mkdir),
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
}
