package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A command is found as execvp(3) finds it, or the error says why not.
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]fs.FileMode{"runs": 0o755, "first/runs": 0o644, "first/plain": 0o644, "second/plain": 0o644, "second/late": 0o755, "unsearchable": 0o600} {
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Succeed(t, os.WriteFile(name, nil, mode))
	}
	must.Succeed(t, os.Mkdir("first/late", 0o755))
	must.Succeed(t, os.Mkdir("second/folder", 0o755))
	must.Succeed(t, os.Symlink("nowhere", "second/dangling"))
	pipe := fifo(t)
	must.Succeed(t, os.Chmod(pipe, 0o755))
	for _, tt := range []struct {
		path, name, file string
		err              error
	}{
		{"", "./runs", "./runs", nil},
		{"", dir + "/runs", dir + "/runs", nil},
		{"", "runs", "./runs", nil},
		{"first:", "runs", "./runs", nil},
		{"first::second", "runs", "./runs", nil},
		{".", "runs", "./runs", nil},
		{dir + "/first:" + dir + "/second/", "late", dir + "/second/late", nil},
		{"first", "runs", "", syscall.EACCES},
		{"first:second", "plain", "", syscall.EACCES},
		{"first:second/", "late", "second/late", nil},
		{"second:first", "folder", "", syscall.EISDIR},
		{"second:first", "nowhere", "", fs.ErrNotExist},
		{"second", "dangling", "", fs.ErrNotExist},
		{"second", "", "", fs.ErrNotExist},
		{"second", ".", "", syscall.EISDIR},
		{"second", "./nowhere", "./nowhere", fs.ErrNotExist},
		{"second", "first/plain", "first/plain", syscall.EACCES},
		{"second", "./first", "./first", syscall.EISDIR},
		{"second", "runs/deeper", "runs/deeper", syscall.ENOTDIR},
		{"second", pipe, pipe, syscall.EACCES},
	} {
		t.Setenv("PATH", tt.path)
		if file, err := Lookup(tt.name); file != tt.file || !errors.Is(err, tt.err) {
			t.Errorf("%q in %q: %q, %v; want %q, %v", tt.name, tt.path, file, err, tt.file, tt.err)
		}
	}
	must.Succeed(t, os.Unsetenv("PATH"))
	if file, err := Lookup("sh"); err != nil || file != "/bin/sh" && file != "/usr/bin/sh" {
		t.Errorf("without a PATH: %q, %v", file, err)
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fifo")
	must.Succeed(t, syscall.Mkfifo(file, 0o600))
	return file
}
