package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

const (
	// maxSize is much larger than a state can be: 4 KiB of metadata, which JSON may write
	// with six bytes for one, and a few hundred bytes for each recorded run.
	maxSize = 256 << 10
	// The pauses between attempts to get a key's turn. Others need it for one update: less
	// than a millisecond, or some milliseconds if the disk is slow.
	firstPause, longestPause = time.Millisecond, 10 * time.Millisecond
	// errorWait is how long a call whose context has ended waits for a more precise error.
	// It is longer than longestPause, so only a disk that hangs gives none.
	errorWait = 10 * longestPause
)

// change applies a change to the state of its key, while no other process can change it, and
// makes the result durable before it returns. A holder learns of a call by its next renewal,
// and standbys see that the file is replaced.
func (s *Store) change(ctx context.Context, c cas.Change) (lease.Lease, error) {
	l, err := bounded(ctx, s.dir, c.Op, func() (lease.Lease, error) { return s.apply(ctx, c) })
	failed, ok := errors.AsType[*lease.StoreError](err)
	switch {
	case !ok:
		s.answered.Store(true)
	case errors.As(failed, new(unfit)) && s.answered.Load(): // somebody is changing it
		failed.Permanent = false
	}
	return l, err
}

// unfit says that this user may not use the directory as it is now.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

// bounded runs work in its own goroutine: work on a disk that hangs cannot be interrupted,
// and a call must end with its context.
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
		case <-time.After(errorWait):
			a.err = &lease.StoreError{Err: fmt.Errorf("%s does not answer in time", dir), Hint: "look for a failing disk in the kernel's log"}
		}
	}
	if unknown, ok := errors.AsType[*lease.StoreError](a.err); ok {
		unknown.Op = op
	}
	return a.value, a.err
}

func (s *Store) apply(ctx context.Context, c cas.Change) (lease.Lease, error) {
	path, err := s.path(c.Key)
	if err != nil {
		return lease.Lease{}, err
	}
	if bad := checkDir(s.dir); bad != nil { // it may have been replaced
		return lease.Lease{}, bad
	}
	for {
		l, answer, err := s.try(ctx, path, c)
		if !errors.Is(err, errTurnTaken) {
			return l, cmp.Or(err, answer)
		}
	}
}

// try applies a change in one turn. answer is the error of the change, err one of the disk.
func (s *Store) try(ctx context.Context, path string, c cas.Change) (l lease.Lease, answer, err error) {
	t, err := takeTurn(ctx, path)
	if err != nil {
		return l, nil, err
	}
	defer t.end()

	st, raw, err := load(path+".json", c.Key)
	if err != nil {
		return l, nil, err
	}
	now, err := s.now()
	if err != nil {
		return l, nil, failure(err)
	}
	before := st
	l, answer = c.Apply(&st, now)
	changed, err := json.Marshal(st)
	if err != nil {
		return lease.Lease{}, nil, failure(err)
	}
	if bytes.Equal(raw, changed) {
		return l, answer, nil
	}
	err = ctx.Err() // the caller may not wait any more
	if err == nil {
		err = t.replace(changed, lasting(before, st))
	}
	if err != nil {
		return lease.Lease{}, nil, failure(err)
	}
	if t.fresh {
		s.prune(now)
	}
	return l, answer, nil
}

func (s *Store) now() (leasestate.Instant, error) {
	up, err := upTime()
	return leasestate.Instant{Boot: s.boot, Up: up.Milliseconds(), Wall: time.Now().UnixMilli()}, err
}

// path returns the path of the key's files, without the extension. With filepath.Join the
// keys "." and ".." would lead out of the directory.
func (s *Store) path(key string) (string, error) {
	name, err := fileName(key)
	return s.dir + "/" + name, err
}

// fileName maps each key to its own name, of at most 205 bytes: keys have no '+', and with an
// extension no name is "." or "..". On a file system that ignores case two keys may have the
// same file, which load refuses.
func fileName(key string) (string, error) {
	if !lease.ValidKey(key) {
		return "", &lease.StoreError{Err: fmt.Errorf("key %q cannot be a file name", key), Permanent: true,
			Hint: "use 1 to 200 of the characters A-Z a-z 0-9 . _ : / -"}
	}
	return strings.ReplaceAll(key, "/", "+"), nil
}

// load reads the state, and the file's bytes. A file that replace cannot have written is an
// error: to guess what it means could grant twice.
func load(path, key string) (st leasestate.State, raw []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		st = leasestate.New(key)
		raw, err = json.Marshal(st) // so that a state that stays new is not written
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
			Hint: leasestate.Hint(err, "delete that file once no command of this key runs")}
	}
	return st, raw, nil
}

// replace replaces the key's file by one with data. A crash before the rename leaves the old
// file and a temporary one. The data is synced before the rename: otherwise, after a power
// cut, the file system may have the new name but not the data, and the key would be
// unusable. The sync is most of the cost of an update; on a tmpfs such as /run it costs
// nothing.
//
// A power cut can bring the old file back until the directory is synced, too, which is done
// if lasting is set. A renewal does not need that: the reboot ends its lease.
func (t *turn) replace(data []byte, lasting bool) error {
	if err := t.mark(unclean); err != nil {
		return err
	}
	name, err := t.temporary(data)
	if err != nil {
		return err
	}
	if held, err := t.held(); !held || err != nil {
		_ = os.Remove(name)
		return cmp.Or(err, errTurnTaken)
	}
	if err := os.Rename(name, t.path+".json"); err != nil {
		_ = os.Remove(name)
		if errors.Is(err, fs.ErrNotExist) { // removed by the process that took the turn
			return errTurnTaken
		}
		return err
	}
	if lasting {
		if err := syncDir(filepath.Dir(t.path)); err != nil {
			return err
		}
	}
	return t.mark(clean)
}

// temporary creates a file with data, and syncs it.
func (t *turn) temporary(data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(t.path), filepath.Base(t.path)+tempMark+"*"+tempExtension)
	if err != nil {
		return "", err
	}
	if err = makeOwn(f); err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}

// lasting reports whether a change must survive a power cut: tokens, ticks and pauses
// outlive the boot, leases do not.
func lasting(before, after leasestate.State) bool {
	return after.Token != before.Token || after.ServedTick != before.ServedTick || after.SeriesTick != before.SeriesTick || after.Starts != before.Starts ||
		after.Paused != before.Paused
}

// syncDir syncs the names in dir.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// failure returns the error of an update that may have been made or not.
func failure(err error) *lease.StoreError {
	e := &lease.StoreError{Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Err, e.Permanent, e.Hint = unfit{err}, true, "run as the user who owns the directory, or use another one"
	case errors.Is(err, unix.EROFS):
		e.Err, e.Permanent, e.Hint = unfit{err}, true, "make that file system writable, or use another: the kernel's log says whether its disk has failed"
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		e.Permanent, e.Hint = true, "something else stands in the place of a file: remove it"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Hint = "make room on that file system"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.Hint = "raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit"
	case errors.Is(err, unix.EFBIG):
		e.Hint = "raise the limit of the size of files: ulimit -f"
	}
	return e
}
