package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestOpenCreatesDirectoryForItsUserOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	defer syscall.Umask(syscall.Umask(0o777))
	s, err := Open(dir)
	must.Succeed(t, err)
	acquire(t, s, request("k"))
	for path, want := range map[string]os.FileMode{
		dir:                          os.ModeDir | 0o700,
		filepath.Join(dir, "k.json"): 0o600,
		filepath.Join(dir, "k.lock"): 0o600,
	} {
		info, err := os.Lstat(path)
		must.Succeed(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %s, want %s", path, info.Mode(), want)
		}
	}
}

// A relative path would name another directory for a run that starts elsewhere.
func TestRelativeDirectoryIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	refusedToOpen(t, "leases", "working directory")
	if _, err := os.Stat("leases"); err == nil {
		t.Error("the directory was made")
	}
}

// refusals are directories that are refused, with a part of the reason.
var refusals = []struct {
	name, reason string
	spoil        func(t *testing.T, dir string)
}{
	{"symbolic link", "symbolic link", func(t *testing.T, dir string) {
		target := t.TempDir()
		must.Succeed(t, os.Remove(dir))
		must.Succeed(t, os.Symlink(target, dir))
	}},
	{"file", "not a directory", func(t *testing.T, dir string) {
		must.Succeed(t, os.Remove(dir))
		write(t, dir, "")
	}},
	{"writable by the group", "writable by others", func(t *testing.T, dir string) { must.Succeed(t, os.Chmod(dir, 0o770)) }},
	{"writable by all", "writable by others", func(t *testing.T, dir string) { must.Succeed(t, os.Chmod(dir, 0o707)) }},
	{"sticky and writable by all", "writable by others", func(t *testing.T, dir string) { must.Succeed(t, os.Chmod(dir, 0o777|os.ModeSticky)) }},
}

func TestUnfitDirectoryIsRefused(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			must.Succeed(t, os.Mkdir(dir, 0o700))
			c.spoil(t, dir)
			refusedToOpen(t, dir, c.reason)
		})
	}
	t.Run("symbolic link with a slash at the end", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "d")
		must.Succeed(t, os.Symlink(private(t, t.TempDir()), link))
		_, err := Open(link + "/")
		if err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("opened with %v", err)
		}
	})
	t.Run("hint for a directory that all share", func(t *testing.T) {
		tmp := t.TempDir()
		must.Succeed(t, os.Chmod(tmp, 0o777|os.ModeSticky))
		_, err := Open(tmp)
		if refusal, ok := errors.AsType[*lease.StoreError](err); !ok || strings.Contains(refusal.Hint, "chmod") {
			t.Errorf("the hint of %+v would take it away from everybody", err)
		}
	})
	t.Run("no directory above", func(t *testing.T) {
		refusedToOpen(t, filepath.Join(t.TempDir(), "missing", "d"), "no such file")
	})
	t.Run("of somebody else", func(t *testing.T) {
		dir := "/usr" // belongs to root
		if os.Geteuid() == 0 {
			dir = t.TempDir()
			must.Succeed(t, os.Chmod(dir, 0o700))
			must.Succeed(t, os.Chown(dir, 12345, 12345))
		}
		refusedToOpen(t, dir, "belongs to user")
	})
}

func refusedToOpen(t *testing.T, dir, reason string) {
	t.Helper()
	if err := wantRefusal(dir, reason); err != nil {
		t.Error(err)
	}
}

// wantRefusal returns an error unless the message has the path and the reason, and the hint what
// to do.
func wantRefusal(dir, reason string) error {
	_, err := Open(dir)
	if refusal, ok := errors.AsType[*lease.StoreError](err); !ok || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), dir) || refusal.Hint == "" {
		return fmt.Errorf("opened with %+v", err) //nolint:errorlint // it may be nil
	}
	return nil
}

// While a leader runs the directory may be replaced, become writable for others, or be
// hidden by a mount.
func TestDirectoryIsCheckedAtEveryUpdate(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			s := open(t, dir)
			c.spoil(t, dir)
			_, err := s.Acquire(t.Context(), request("k"))
			if failure, ok := errors.AsType[*lease.StoreError](err); !ok || !failure.Permanent || failure.Hint == "" || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("acquire: %v", err)
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "d")
		s := open(t, dir)
		must.Succeed(t, os.Remove(dir))
		_, err := s.Acquire(t.Context(), request("k"))
		if failure, ok := errors.AsType[*lease.StoreError](err); !ok || failure.Permanent || failure.Hint == "" {
			t.Errorf("acquire: %v", err)
		}
		must.Succeed(t, os.Mkdir(dir, 0o700))
		if _, err := s.Acquire(t.Context(), request("k")); err != nil {
			t.Errorf("acquire in the new directory: %v", err)
		}
	})
}
