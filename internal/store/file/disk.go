package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
)

const (
	// maxSize is far above what a state can grow to: 4 KiB of metadata, at
	// worst six bytes for one, and a few hundred bytes for each remembered run.
	maxSize = 256 << 10
	// Others hold a key for one update: less than a millisecond, some
	// milliseconds where the disk is slow.
	firstPause, longestPause = time.Millisecond, 10 * time.Millisecond
	// lastWord is how long a call waits after its context ended for the reason.
	// It is longer than longestPause: only a disk that hangs has none by then.
	lastWord = 10 * longestPause
)

// change is what one verb does to a key's state, and its answer.
type change func(*rules.State, rules.Instant) (lease.Lease, error)

// update applies do to the state of key while no other process can, and
// makes the result durable before it returns.
func (s *Store) update(ctx context.Context, op, key string, do change) (lease.Lease, error) {
	return bounded(ctx, s.dir, op, func() (lease.Lease, error) { return s.apply(ctx, key, do) })
}

// bounded runs work on a goroutine of its own because a disk that hangs cannot
// be interrupted, and no call may outlive its context.
func bounded[T any](ctx context.Context, dir, op string, work func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := work()
		answers <- answer{v, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		select {
		case a = <-answers:
		case <-time.After(lastWord):
			a.err = &lease.StoreError{Err: fmt.Errorf("%s does not answer in time", dir), Cure: "look for a failing disk in the kernel's log"}
		}
	}
	var unknown *lease.StoreError
	if errors.As(a.err, &unknown) {
		unknown.Op = op
	}
	return a.value, a.err
}

func (s *Store) apply(ctx context.Context, key string, do change) (lease.Lease, error) {
	path, err := s.path(key)
	if err != nil {
		return lease.Lease{}, err
	}
	if bad := checkDir(s.dir); bad != nil { // the path may mean something else by now
		return lease.Lease{}, bad
	}
	turn, err := takeTurn(ctx, path+".lock")
	if err != nil {
		return lease.Lease{}, err
	}
	defer turn.Close()

	st, before, err := load(path+".json", key)
	if err != nil {
		return lease.Lease{}, err
	}
	now, err := s.now()
	if err != nil {
		return lease.Lease{}, failure(err)
	}
	l, answer := do(&st, now)
	after, err := json.Marshal(st)
	if err != nil {
		return lease.Lease{}, failure(err)
	}
	if bytes.Equal(before, after) {
		return l, answer
	}
	if err := ctx.Err(); err != nil { // nobody waits for this any more
		return lease.Lease{}, failure(err)
	}
	if err := replace(path, after); err != nil {
		return lease.Lease{}, failure(err)
	}
	return l, answer
}

func (s *Store) now() (rules.Instant, error) {
	up, err := upTime()
	return rules.Instant{Boot: s.boot, Up: up.Milliseconds(), Wall: time.Now().UnixMilli()}, err
}

// path is that of the key's files, without the extension. filepath.Join would
// take the keys "." and ".." as directions, out of the directory.
func (s *Store) path(key string) (string, error) {
	name, err := fileName(key)
	return s.dir + "/" + name, err
}

// fileName maps every key to a name of its own: '+' is no character of keys, and
// with an extension the names "." and ".." cannot arise. At most 205 bytes. A
// file system that folds case gives two keys one file; load notices.
func fileName(key string) (string, error) {
	if !lease.ValidKey(key) {
		return "", &lease.StoreError{Err: fmt.Errorf("key %q cannot be a file name", key), Permanent: true,
			Cure: "use 1 to 200 of the characters A-Z a-z 0-9 . _ : / -"}
	}
	return strings.ReplaceAll(key, "/", "+"), nil
}

// takeTurn waits until no other update of the key is under way. Closing the file
// ends the turn, and so does the end of the process, however it ends.
func takeTurn(ctx context.Context, path string) (*os.File, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		f, err := tryTurn(path)
		if f != nil || err != nil {
			return f, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, &lease.StoreError{Err: fmt.Errorf("another process keeps %s busy", path),
				Cure: "find that process with `fuser " + path + "`: it may be stopped"}
		}
	}
}

// tryTurn returns nil without an error when it is somebody else's turn.
func tryTurn(path string) (*os.File, error) {
	f, err := openOwn(path, os.O_RDWR)
	if err != nil {
		return nil, failure(err)
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return nil, failure(err)
}

// openOwn opens or makes a file that its user, and nobody else, can open again,
// whatever the umask is.
func openOwn(path string, flags int) (*os.File, error) {
	const own = 0o600
	f, err := os.OpenFile(path, flags|os.O_CREATE|unix.O_NOFOLLOW, own)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&own != own {
		err = f.Chmod(own)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// load reads the state and the bytes that it was. A file that is not exactly
// what replace leaves behind is never guessed at: a guess could grant twice.
func load(path, key string) (st rules.State, raw []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		st = rules.New(key)
		raw, err = json.Marshal(st) // what is not worth a file is not written
		return st, raw, err
	}
	if err != nil {
		return st, nil, failure(err)
	}
	defer f.Close()
	raw, err = io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return st, nil, failure(err)
	}
	if json.Unmarshal(raw, &st) != nil {
		err = errors.New("it is damaged") // the error itself speaks of Go's types
	} else {
		err = st.Check(key)
	}
	if err != nil {
		return st, nil, &lease.StoreError{Err: fmt.Errorf("%s cannot be trusted: %w", path, err), Permanent: true,
			Cure: "delete that file once no command of this key runs"}
	}
	return st, raw, nil
}

// replace puts data into path.json. It is always one of two complete files: a
// crash before the rename leaves the old one, and a remainder that the next
// update overwrites. Syncing comes first because after a power cut a file system
// may know the new name but not yet the bytes, and the key would be unusable. It
// is most of the cost of an update; on a tmpfs such as /run it is nothing.
// The directory is not synced: that can only bring the old file back, whose
// lease the reboot has ended.
func replace(path string, data []byte) error {
	f, err := openOwn(path+".tmp", os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path+".json")
}

// failure is an update that may have happened or not.
func failure(err error) *lease.StoreError {
	e := &lease.StoreError{Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		e.Permanent, e.Cure = true, "run as the user who owns the directory, or use another one"
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		e.Permanent, e.Cure = true, "something else stands in the place of a file: remove it"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Cure = "make room on that file system"
	}
	return e
}
