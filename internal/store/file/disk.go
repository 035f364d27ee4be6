package file

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
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

// keeper is a [keep.Keeper]. Each of its calls ends with the context: work on a disk that hangs
// cannot be interrupted.
type keeper struct{ *Store }

var _ keep.Pruner = keeper{}

// do runs a call, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	err := call(ctx, keeper{s})
	if err == nil {
		s.answered.Store(true)
	}
	return s.storeError(op, err)
}

// unfit says that this user may not use the directory as it is now.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

func (s *Store) storeError(op string, err error) error {
	if err == nil || errors.Is(err, lease.ErrNoWakeups) {
		return err
	}
	e, ok := errors.AsType[*lease.StoreError](err)
	if !ok {
		e = failure(err)
	}
	switch {
	case errors.As(err, new(*keep.Untrusted)):
		e.Permanent, e.Hint = true, rules.Hint(err, "delete that file once no command of this key runs")
	case errors.As(e, new(unfit)) && s.answered.Load(): // somebody is changing it
		e.Permanent = false
	}
	e.Op = op
	return e
}

// bounded runs work in its own goroutine.
func bounded[T any](ctx context.Context, dir string, work func() (T, error)) (T, error) {
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
	return a.value, a.err
}

// Read implements [keep.Keeper]. It needs no turn, since a file is replaced as a whole.
func (k keeper) Read(ctx context.Context, key string) (keep.Row, error) {
	return bounded(ctx, k.dir, func() (keep.Row, error) {
		path, err := k.path(key)
		if err != nil {
			return keep.Row{}, err
		}
		if bad := checkDir(k.dir); bad != nil { // it may have been replaced
			return keep.Row{}, bad
		}
		return k.row(path, key)
	})
}

// row reads the file of a key. Its version is its text.
func (s *Store) row(path, key string) (r keep.Row, err error) {
	r.State = rules.New(key)
	raw, err := load(path + ".json")
	if err == nil && raw != nil {
		if r.State, err = s.Parse(key, raw); err != nil {
			return r, &keep.Untrusted{Place: path + ".json", Err: err}
		}
		r.Version = string(raw)
	}
	if err == nil {
		r.Now, err = s.now()
	}
	return r, err
}

// swapped is what a swap returns.
type swapped struct {
	now   keep.Row
	saved bool
}

// Swap implements [keep.Keeper]. No other process replaces the file during the turn, and what is
// written is durable before it returns.
func (k keeper) Swap(ctx context.Context, r keep.Row, _ keep.Effect) (now keep.Row, saved bool, err error) {
	is, err := bounded(ctx, k.dir, func() (is swapped, err error) {
		for {
			is, err = k.try(ctx, r)
			if !errors.Is(err, errTurnTaken) {
				return is, err
			}
		}
	})
	return is.now, is.saved, err
}

// try replaces a row in one turn.
func (k keeper) try(ctx context.Context, r keep.Row) (is swapped, err error) {
	path, err := k.path(r.Key)
	if err != nil {
		return is, err
	}
	t, err := takeTurn(ctx, path)
	if err != nil {
		return is, err
	}
	defer t.end()
	if is.now, err = k.row(path, r.Key); err != nil || is.now.Version != r.Version {
		return is, err
	}
	text, err := json.Marshal(r.State)
	if err == nil {
		err = ctx.Err() // the caller may not wait any more
	}
	if err == nil {
		err = t.replace(text, lasting(is.now.State, r.State))
	}
	return swapped{r, err == nil}, err
}

// now returns the present time. Tokens and ticks are in wall time, which outlives a boot.
func (s *Store) now() (rules.Instant, error) {
	up, err := upTime()
	now := s.At(time.Now().UnixMilli(), "")
	now.Boot, now.Up = s.boot, up.Milliseconds() // a key's grant may be of an earlier boot
	return now, err
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

// load reads a file, nil if there is none.
func load(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize))
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
		return t.unwritten(err)
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
		return t.unwritten(err)
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

// unwritten names the key's file in place of the temporary one, whose name is another in each attempt:
// the same cause is told once.
func (t *turn) unwritten(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return &fs.PathError{Op: "write", Path: t.path + ".json", Err: errno}
	}
	return err
}

// lasting reports whether a change must survive a power cut: tokens, ticks and pauses
// outlive the boot, leases do not.
func lasting(before, after rules.State) bool {
	return after.Token != before.Token || after.ServedTick != before.ServedTick || after.SeriesTick != before.SeriesTick || after.Starts != before.Starts ||
		!reflect.DeepEqual(after.Paused, before.Paused)
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
