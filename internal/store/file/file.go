// Package file keeps leases in a directory of this host: the `file:DIR` store,
// for a first run without any server and as a flock(1) whose holder has a time
// limit, a fencing token and ticks. It keeps the contract of [lease.Store].
//
// A key is one JSON file, replaced atomically by rename(2), and a lock file beside it,
// on which flock(2) makes updates exclusive; a cleaner of old files may remove the lock
// file at any time. A grant, and a success that serves a tick, survive a power cut; a
// renewal need not.
// A standby watches the directory and looks when the key's file is replaced. The
// directory is the store's memory, so a first grant need not settle.
//
// Clocks: a lease runs on the time since the boot, sleep included, and is valid
// for that boot only; AcquiredAt, MinHoldUntil and Until are milliseconds of it.
// No step of the wall clock can shorten or prolong a lease, and a reboot ends
// it, since it ended the holder. Ticks must outlive a reboot and so are wall
// time, as is the floor of the tokens: should the directory be lost, a new token
// is still larger than the old ones. A token is never below the last one.
//
// Not promised: anything across hosts. Another kernel has another boot, so each
// would take the leases of the other for expired. Network file systems are
// refused for that reason; a disk attached to two hosts cannot be recognised,
// nor can containers with a time namespace of their own. Deleting or moving the
// directory takes the leases out of the store.
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

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Store keeps leases below one directory. Several goroutines and processes may
// use it at a time.
type Store struct {
	cas.Verbs
	dir  string
	boot string
}

var (
	_ lease.Store = (*Store)(nil)
	_ lease.Admin = (*Store)(nil)
)

// Factory is what package store knows of this one. An address is file:/DIR and
// holds no password.
var Factory = location.Factory{
	Schemes: []string{scheme},
	Form:    "file:/DIR",
	Open: func(url string, o location.Options) (location.Store, error) {
		dir := strings.TrimPrefix(url, scheme+":")
		if _, err := os.Lstat(dir); o.MustExist && errors.Is(err, fs.ErrNotExist) {
			return nil, &lease.StoreError{Op: "file store", Err: errors.New(dir + " does not exist"), Hint: "correct the directory; the first run makes it"}
		}
		return Open(dir)
	},
	Redact: func(url string) string { return url },
}

const scheme = "file"

// Open makes a store of the directory dir, an absolute path, and creates it, for
// its user only, if it is missing. Its parent must exist. The directory must be
// the user's own, on a local file system, no symbolic link and writable by
// nobody else. Errors: *lease.StoreError.
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
		return nil, refusal(fmt.Errorf("cannot tell this boot from another: %w", err), "use another kind of store here")
	}
	if err := makeDir(dir); err != nil {
		return nil, refusal(err, "make the directory for this user first, or choose another")
	}
	if bad := checkDir(dir); bad != nil {
		return nil, refusal(bad.Err, bad.Hint)
	}
	s := &Store{dir: dir, boot: boot}
	s.Verbs = s.change
	return s, nil
}

func refusal(err error, hint string) *lease.StoreError {
	return &lease.StoreError{Op: "file store", Err: err, Permanent: true, Hint: hint}
}

// Close does nothing: no file stays open between two calls.
func (s *Store) Close() error { return nil }
