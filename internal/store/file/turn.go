package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// turn is the right to update a key: an exclusive flock(2) on the key's lock file.
//
// A cleaner of old files may remove that file during a turn. Then the next process creates
// another lock file, and has a turn, too. So a turn is only valid while its file is the one in
// the directory. Of two updates at the same time the first one fails and begins again: it
// checks the lock file once more after it has created its temporary file, and a process that
// creates a new lock file removes all temporary files before it reads the state. So either
// the first one sees the new lock file, or its rename finds no temporary file.
type turn struct {
	file *os.File
	path string // of the key's files, without the extension
}

// errTurnTaken says that the lock file was removed, and nothing was written.
var errTurnTaken = errors.New("its lock file was removed")

// Temporary files are named KEY~RANDOM.tmp; no key has a ~.
const tempMark, tempExtension = "~", ".tmp"

// The size of a lock file says whether there may be temporary files of its key, from a crash
// or from an update that lost its turn. A new lock file is empty.
const unclean, clean = 0, 1

// takeTurn waits until no other update of the key is under way.
func takeTurn(ctx context.Context, path string) (*turn, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		t, err := tryTurn(path)
		if t != nil || err != nil {
			return t, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, &lease.StoreError{Err: fmt.Errorf("another process keeps %s.lock busy", path),
				Hint: "find that process with `fuser " + path + ".lock`: it may be stopped"}
		}
	}
}

// tryTurn returns nil without an error if another process has the turn.
func tryTurn(path string) (*turn, error) {
	f, err := openOwn(path+".lock", os.O_RDWR)
	if err != nil {
		return nil, failure(err)
	}
	t := &turn{file: f, path: path}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		var held bool
		if held, err = t.held(); held {
			err = t.tidy()
		}
		if held && err == nil {
			return t, nil
		}
	}
	t.end()
	if err == nil || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return nil, failure(err)
}

// end ends the turn. So does the end of the process.
func (t *turn) end() { _ = t.file.Close() }

// held reports whether the file that is locked is still the one in the directory.
func (t *turn) held() (bool, error) {
	mine, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(t.path + ".lock")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// tidy removes the key's temporary files if there may be any.
func (t *turn) tidy() error {
	info, err := t.file.Stat()
	if err != nil || info.Size() != unclean {
		return err
	}
	dir, key := filepath.Split(t.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), key+tempMark) && strings.HasSuffix(e.Name(), tempExtension) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return t.mark(clean)
}

// mark records whether there may be temporary files. It also renews the lock file's time, so
// that cleaners see that it is in use.
func (t *turn) mark(size int64) error { return t.file.Truncate(size) }

// openOwn opens or creates a file that only its user can open again.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|os.O_CREATE|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return nil, err
	}
	if err := makeOwn(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fileMode is the mode of files, whatever the umask is.
const fileMode = 0o600

func makeOwn(f *os.File) error {
	info, err := f.Stat()
	if err == nil && info.Mode()&fileMode != fileMode {
		err = f.Chmod(fileMode)
	}
	return err
}
