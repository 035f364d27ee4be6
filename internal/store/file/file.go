// Package file keeps leases in a directory of this host: the store file:DIR, for a first run
// without any server, or as a flock(1) with a time limit, a fencing token and ticks.
//
// Promise: the contract of [lease.Store], between processes of one host. A grant, and a
// success that serves a tick, survive a power cut; a renewal need not. A cleaner of old files
// may remove the lock files at any time.
//
// Not promised: anything across kernels. Each has its own time since the boot, so two hosts
// would take each other's leases for expired. Therefore network file systems are refused. A disk that is
// attached to two hosts cannot be recognised. Deleting or moving the directory takes the
// leases away.
//
// A key is one JSON file, which rename(2) replaces atomically, and a lock file beside it, for
// flock(2) while it is replaced. Standbys and the holder watch the directory and read the key's
// file when it is replaced. The directory keeps what was granted, so a first grant need not settle.
//
// Clocks: a lease runs on the time since the boot, including sleep, which all containers of a
// kernel share; AcquiredAt, MinHoldUntil and Until are milliseconds of it. So a step of the wall
// clock does not change a lease, and a reboot, which ends the holder, ends it: at once,
// unless the last renewal was sooner after that boot than now is after this one. Ticks are in
// wall time, since they outlive a reboot. A token is larger than the last one, and at least
// the wall time, so tokens grow even if the directory is lost.
//
// Only package store and tests may import this package.
package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Store keeps leases below one directory. Several goroutines and processes may
// use it at a time.
type Store struct {
	*keep.Store
	dir, boot string
	// answered: a call was carried out in the directory before.
	answered atomic.Bool
}

// Factory opens this store by its address, file:/DIR, which has no password.
var Factory = location.Factory{
	Schemes: []string{scheme},
	Form:    "file:/DIR",
	Open: func(o location.Options) (location.Store, error) {
		dir := strings.TrimPrefix(o.URL, scheme+":")
		if _, err := os.Lstat(dir); o.MustExist && errors.Is(err, fs.ErrNotExist) {
			return nil, &lease.StoreError{Op: "file store", Err: errors.New(dir + " does not exist"), Hint: "correct the path; the first run creates the directory"}
		}
		return Open(dir)
	},
	Redact: func(url string) string { return url },
}

const scheme = "file"

// Open returns the store in the directory dir, an absolute path. If it is missing, Open
// creates it, for this user only; its parent must exist. It must belong to the user, be on a
// local file system, be no symbolic link, and nobody else may write to it. An error is a
// *lease.StoreError.
func Open(dir string) (*Store, error) {
	if dir == "" {
		return nil, refusal(errors.New("it names no directory"), "write file:/DIR")
	}
	if !filepath.IsAbs(dir) { // cron, services and shells start in different places
		return nil, refusal(fmt.Errorf("%s depends on the working directory", dir), "name the directory by an absolute path: file:/DIR")
	}
	dir = filepath.Clean(dir) // a slash at the end would hide a symbolic link
	boot, err := bootID()
	if err != nil {
		return nil, refusal(fmt.Errorf("cannot tell this boot from another: %w", err), "show it (no ProcSubset=pid in a unit, no mask over /proc/sys in a container), or use another kind of store")
	}
	if err := makeDir(dir); err != nil {
		return nil, refusal(err, "make the directory for this user first, or choose another")
	}
	if bad := checkDir(dir); bad != nil {
		return nil, refusal(bad.Err, bad.Hint)
	}
	s := &Store{dir: dir, boot: boot}
	s.Store = keep.New(keep.Config{Do: s.do, Hear: s.hear, Follows: true})
	return s, nil
}

func refusal(err error, hint string) *lease.StoreError {
	return &lease.StoreError{Op: "file store", Err: err, Permanent: true, Hint: hint}
}

// Close does nothing: no file stays open between two calls.
func (s *Store) Close() error { return nil }
