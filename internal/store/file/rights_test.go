package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A candidate that was answered goes on while somebody changes the directory; another one
// ends.
func TestDirectoryIsChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	standby, newcomer := open(t, dir), open(t, dir)
	acquire(t, standby, request("k"))
	must.Succeed(t, os.Chmod(dir, 0o777))
	for s, permanent := range map[*Store]bool{standby: false, newcomer: true} {
		_, err := s.Acquire(t.Context(), request("k"))
		if failed, ok := errors.AsType[*lease.StoreError](err); !ok || failed.Permanent != permanent {
			t.Errorf("%v: permanent %t", err, !permanent)
		}
	}
	must.Succeed(t, os.Chmod(dir, 0o700))
	if _, err := standby.Acquire(t.Context(), request("k")); !errors.As(err, new(*lease.HeldError)) {
		t.Error(err)
	}
}

// Of what the kernel refuses, rights are somebody's to change.
func TestUnfit(t *testing.T) {
	for errno, want := range map[unix.Errno]bool{unix.EACCES: true, unix.EPERM: true, unix.EROFS: true, unix.EISDIR: false, unix.ENOSPC: false} {
		if err := failure(&os.PathError{Op: "open", Path: "k", Err: errno}); errors.As(err, new(unfit)) != want || !errors.Is(err, errno) {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
