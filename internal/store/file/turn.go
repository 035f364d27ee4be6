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
// A cleaner of old files may remove that file while a turn lasts, and then the next
// process makes another and has a turn, too. So a turn counts only while its file is the
// one in the directory, and of two updates at a time the first fails and begins again: it
// looks at the lock file once more after it has made its temporary file, and a process
// that makes a new lock file removes the temporary files that are there before it reads
// the state. So either the first sees the new lock file, or its rename finds nothing to
// rename.
type turn struct {
	file  *os.File
	path  string // of the key's files, without the extension
	fresh bool   // the lock file has just been made, or the last update was cut short
}

// errTurnTaken says that the lock file has been removed, and nothing written.
var errTurnTaken = errors.New("its lock file was removed")

// Temporary files are named KEY~RANDOM.tmp; no key has a ~.
const tempMark, tempExtension = "~", ".tmp"

// The size of a lock file says whether there may be temporary files of its key,
// left by a crash or by an update that lost its turn. A new one is empty.
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

// tryTurn returns nil without an error when another process has the turn.
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

// end ends the turn, as does the end of the process, however it ends.
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
	t.fresh = true
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

// mark notes whether the key is clean. It has a second use: a cleaner that goes
// by the age of files sees that the lock file is in use.
func (t *turn) mark(size int64) error { return t.file.Truncate(size) }

// openOwn opens or makes a file that its user, and nobody else, can open again.
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
