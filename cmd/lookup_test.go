package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/internal/run"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Where a command is found, and the status if it is not.
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := func(name string, mode os.FileMode) {
		t.Helper()
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Succeed(t, os.WriteFile(name, []byte("#!/bin/sh\n"), mode))
	}
	file("here", 0o755)
	file("a/plain", 0o644)
	file("a/both", 0o644)
	file("b/both", 0o755)
	file("b/job", 0o755)
	file("a/job/inside", 0o755) // a/job is a directory
	must.Succeed(t, os.Symlink("nowhere", "b/dangling"))
	tests := []struct {
		name, path string
		want       string // the file, or empty
		status     int    // of the error
	}{
		{"both", "a:b", "b/both", 0},
		{"both", dir + "/a:" + dir + "/b/", dir + "/b/both", 0},
		{"both", "a", "", 126},
		{"plain", "a:b", "", 126},
		{"plain", "b", "", 127},
		{"job", "a:b", "b/job", 0},
		{"job", "a", "", 126},
		{"here", "a::b", "./here", 0},
		{"here", ".", "./here", 0},
		{"here", "", "./here", 0},
		{"here", "a:b", "", 127},
		{"dangling", "b", "", 127},
		{"", "b", "", 127},
		{".", "b", "", 126},
		{"./here", "", "./here", 0},
		{"b/job", "a", "b/job", 0},
		{dir + "/b/job", "", dir + "/b/job", 0},
		{"./a/plain", "b", "", 126},
		{"./a", "b", "", 126},
		{"/", "b", "", 126},
		{"/dev/null", "b", "", 126},
		{"./nowhere", "b", "", 127},
		{"b/job/deeper", "b", "", 127},
	}
	for _, tt := range tests {
		t.Setenv("PATH", tt.path)
		got, err := run.Lookup(tt.name)
		if tt.want != "" {
			if got != tt.want || err != nil {
				t.Errorf("Lookup(%q) in %q = %q, %v; want %q", tt.name, tt.path, got, err, tt.want)
			}
			continue
		}
		if err == nil || notStarted(err) != tt.status {
			t.Errorf("Lookup(%q) in %q = %q, %v; want status %d", tt.name, tt.path, got, err, tt.status)
		}
	}

	must.Succeed(t, os.Unsetenv("PATH"))
	if got, err := run.Lookup("sh"); err != nil || filepath.Base(got) != "sh" {
		t.Errorf("without PATH: %q, %v", got, err)
	}
}
