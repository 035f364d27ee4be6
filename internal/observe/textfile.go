package observe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
)

// Textfile is a campaign.Observer that writes the metrics of a key to a file, in a
// directory that node_exporter reads. The file is replaced atomically when the command has
// started and when a run ends, from its own goroutine: a disk that hangs delays nothing.
type Textfile struct {
	dir, name string
	metrics   *Metrics
	log       *slog.Logger
	warned    bool

	changed chan struct{}
	over    chan struct{}
	done    chan struct{}
	counted values // this process's counters when they were last added to the file's
}

// NewTextfile writes the file of the key in dir until Close. Only the first error is
// logged.
func NewTextfile(dir, key string, m *Metrics, log *slog.Logger) *Textfile {
	f := &Textfile{
		dir: dir, name: "leaderrun-" + fileName(key) + ".prom", metrics: m, log: log,
		changed: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{}),
	}
	go f.keep()
	return f
}

// fileName returns a file name that is unique to the key and short enough for every file
// system. PathEscape writes a % only before two digits, so no other name has %-.
func fileName(key string) string {
	const most = 200
	name := url.PathEscape(key)
	if len(name) > most {
		sum := sha256.Sum256([]byte(key))
		name = name[:most/2] + "%-" + hex.EncodeToString(sum[:])
	}
	return name
}

// Observe requests a write when the command has started. A write at the grant would compete
// with its start for the processor. The last run ends with Close.
func (f *Textfile) Observe(t campaign.Transition) {
	rejoins := t.From.Phase == candidate.Releasing && t.To.Phase == candidate.Standby
	if t.Event.Kind != elect.Started && !rejoins {
		return
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Close writes the file a last time, in at most a second.
func (f *Textfile) Close() {
	close(f.over)
	if !await(f.done, time.Second) {
		f.log.Warn("the metrics were not written to "+Printable(f.dir)+" within a second", EventMetrics, HintAttr, "look at the disk")
	}
}

func (f *Textfile) keep() {
	defer close(f.done)
	for {
		select {
		case <-f.changed:
			f.save()
		case <-f.over:
			f.save()
			return
		}
	}
}

func (f *Textfile) save() {
	err := f.write()
	if err != nil && !f.warned {
		f.warned = true
		f.log.Warn(fmt.Sprintf("the metrics were not written to %s: %v", Printable(f.dir), err), EventMetrics, HintAttr, textfileHint(err))
	}
}

var errSymlink = errors.New("it is a symbolic link")

func textfileHint(err error) string {
	switch {
	case errors.Is(err, errSymlink):
		return "name the directory it points to"
	case errors.Is(err, fs.ErrNotExist):
		return "create the directory, writable for this user"
	case errors.Is(err, fs.ErrPermission):
		return "make the directory writable for this user"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free space on its disk"
	}
	return "name a directory on a local disk"
}

// write replaces the file. It adds this process's counters to those in the file, so that
// several processes can write it in turn.
func (f *Textfile) write() error {
	dir, err := openDir(f.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	release, err := takeTurn(dir)
	if err != nil {
		return err
	}
	defer release()
	before, err := f.read(dir)
	if err != nil && !f.warned {
		f.warned = true
		f.log.Warn(fmt.Sprintf("the metrics in %s start anew: %s cannot be used: %v", Printable(f.dir), f.name, err),
			EventMetrics, HintAttr, "look for the other program that writes there")
	}
	now, seen := f.metrics.snapshot()
	if err := replace(dir, f.name, format(merge(before, now, f.counted, seen), f.metrics.labels)); err != nil {
		return err
	}
	f.counted = now
	return nil
}

// merge adds the counts since the last write to the values before, and replaces the
// measured values. If the file says that an earlier process leads, but a denial showed a
// newer token, that process was killed and does not lead any more.
func merge(before, now, counted values, seen int64) values {
	merged := before
	for i, m := range metrics {
		switch {
		case m.kind == "counter":
			merged.add(i, now[i].value-counted[i].value)
		case now[i].known:
			merged[i] = now[i]
		}
	}
	if !now[isLeader].known && before[isLeader].known && float64(seen) > before[token].value {
		merged.set(isLeader, 0)
	}
	return merged
}

// openDir opens a directory, but not through a symbolic link: a user who can replace the
// link could choose where root writes.
func openDir(dir string) (*os.Root, error) {
	dir = filepath.Clean(dir) // a trailing slash would follow a link
	named, err := os.Lstat(dir)
	if err != nil {
		return nil, reasonOf(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, reasonOf(err)
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(named, opened) {
		root.Close()
		return nil, errSymlink
	}
	return root, nil
}

// takeTurn locks the directory against other leaderruns. It waits for half a second: no
// leaderrun keeps the lock longer.
func takeTurn(dir *os.Root) (release func(), err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, reasonOf(err)
	}
	for range 50 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.Close()
	return nil, fmt.Errorf("another process has its lock: flock: %w", err)
}

// read returns the values in the file, which may be missing or damaged.
func (f *Textfile) read(dir *os.Root) (values, error) {
	file, err := dir.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return values{}, nil
	}
	if err != nil {
		return values{}, reasonOf(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return values{}, errors.New("it is no regular file")
	}
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = errors.New("it is too long")
	}
	if err != nil {
		return values{}, reasonOf(err)
	}
	return parse(text, f.metrics.labels)
}

// replace replaces the file with a new one.
func replace(dir *os.Root, name string, text []byte) error {
	temporary := "." + name + ".new"
	_ = dir.Remove(temporary) // left by a leaderrun that was killed
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return reasonOf(err)
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	const readable = 0o644 // node_exporter runs as another user
	err = errors.Join(err, f.Chmod(readable), f.Close())
	if err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		_ = dir.Remove(temporary)
		return reasonOf(err)
	}
	return nil
}

// reasonOf returns the error without the path, which the message already has.
func reasonOf(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
