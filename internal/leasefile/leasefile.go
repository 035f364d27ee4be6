// Package leasefile implements the file that tells a command, without the network, whether
// it still leads. The elector creates it before the command starts, updates its stop-by
// with every renewal of the lease, and removes it at the end.
//
// It guarantees that what Read returns was written as a whole, by an elector of this boot
// and of this user. It does not guarantee that the elector is alive: if it dies, the
// stop-by in the file passes.
//
// The file is one line of fixed length, rewritten in place:
//
//	TOKEN HOLDER STOP-BY BOOT-ID CHECKSUM
//
// STOP-BY is in nanoseconds of CLOCK_BOOTTIME and is valid only in this boot. In a time namespace
// with a clock of its own BOOT-ID ends with the clock's offset, so that no reader outside takes
// STOP-BY for a time of its own clock, or the other way round.
// A reader may get parts of the old and the new line during a rewrite; the checksum, a
// CRC-32 of the rest of the line, detects that.
package leasefile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// Lease is the content of the file.
type Lease struct {
	Token  int64
	Holder string
	// StopBy is on the clock of proc.Now; 0 means that the lease is over.
	StopBy time.Duration
}

// File is the file of one lease, on the elector's side. Only Create and Close wait for the
// disk: a disk that hangs must not delay a renewal.
type File struct {
	path string
	file interface {
		io.WriterAt
		io.Closer
	}
	boot string

	mu     sync.Mutex
	lease  Lease
	ended  bool
	failed error

	first   sync.Once // a new goroutine would delay the start of the command more than the file
	changed chan struct{}
	removed chan struct{} // closed when the file is removed or cannot be
}

// hostDir is the directory for services and cron jobs of root, which have no login
// session.
const hostDir = "/run/leaderrun"

// Dirs returns the directories for lease files: that of the login session, which is
// removed when the session ends, hostDir, and that of temporary files.
func Dirs() []string {
	return []string{os.Getenv("XDG_RUNTIME_DIR"), hostDir, os.TempDir()}
}

// Create creates the file, readable by this user only, in the first directory where that
// is possible. It skips directories of other users except root, and relative ones: the
// command may change directory.
func Create(dirs []string, l Lease) (*File, error) {
	boot, err := clockID()
	if err != nil {
		return nil, err
	}
	f := &File{boot: boot, lease: l, changed: make(chan struct{}, 1), removed: make(chan struct{})}
	// The end of a holder id is random: two leases never share a name.
	name := "leaderrun-" + l.Holder[strings.LastIndexByte(l.Holder, '/')+1:]
	var why []string
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		if dir == hostDir {
			_ = os.Mkdir(dir, 0o755) // works only for root; if it fails, so does creating the file
		}
		err := trusted(dir)
		if err == nil {
			err = f.create(filepath.Join(dir, name))
		}
		if err != nil {
			why = append(why, fmt.Sprintf("%s: %v", dir, cause(err)))
			continue
		}
		return f, nil
	}
	return nil, errors.New(strings.Join(why, "; "))
}

// trusted returns an error for a directory of another user than root (sudo -E), who could
// remove the file at any time. In a user namespace root may be one of those who have no id there;
// then others cannot remove the file if the directory is sticky, as /tmp is.
func trusted(dir string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return err
	}
	if own := uint32(os.Geteuid()); st.Uid != own && st.Uid != 0 && (st.Mode&syscall.S_ISVTX == 0 || mapped(st.Uid)) {
		return fmt.Errorf("it belongs to user %d, and leaderrun runs as user %d", st.Uid, own)
	}
	return nil
}

// mapped reports whether the id is a user's in this user namespace; otherwise it stands for all that
// have none.
func mapped(uid uint32) bool {
	maps, err := os.ReadFile("/proc/self/uid_map")
	for line := range strings.Lines(string(maps)) {
		var first, outside, count uint32
		if n, _ := fmt.Sscan(line, &first, &outside, &count); n == 3 && uid >= first && uid-first < count {
			return true
		}
	}
	return err != nil
}

// owned returns an error for a file of another user, who could have put it into a
// directory that others may write to.
func owned(fd int) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if own := uint32(os.Geteuid()); st.Uid != own {
		return fmt.Errorf("the file belongs to user %d, not to user %d", st.Uid, own)
	}
	return nil
}

func (f *File) create(path string) error {
	const mine = 0o600
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, mine)
	if err != nil {
		return err
	}
	f.path, f.file = path, disk(fd)
	_ = syscall.Fchmod(fd, mine) // whatever the umask is; may fail on a file system without modes
	err = owned(fd)
	if err == nil {
		err = f.write(f.lease)
	}
	if err != nil {
		return errors.Join(err, f.file.Close(), os.Remove(path))
	}
	return nil
}

// disk is a file descriptor: an os.File would cost a call to the poller at every start.
type disk int

func (d disk) WriteAt(b []byte, at int64) (int, error) {
	n, err := syscall.Pwrite(int(d), b, at)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (d disk) Close() error { return syscall.Close(int(d)) }

// cause returns an error without the path, whose directory the message already names.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Update sets stop-by; 0 ends the lease. It returns the error of an earlier write, after
// which the file may be out of date.
func (f *File) Update(stopBy time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease.StopBy = stopBy
	f.wake()
	return f.failed
}

// Remove ends the lease and removes the file.
func (f *File) Remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease.StopBy, f.ended = 0, true
	f.wake()
}

// Close waits for Remove to be carried out, for at most a second.
func (f *File) Close() {
	select {
	case <-f.removed:
	case <-time.After(time.Second):
	}
}

func (f *File) wake() {
	f.first.Do(func() { go f.keep() })
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// keep writes the newest lease after each change, until the file is removed. Changes during
// a write are combined into one.
func (f *File) keep() {
	defer close(f.removed)
	for range f.changed {
		f.mu.Lock()
		l, ended := f.lease, f.ended
		f.mu.Unlock()
		err := f.write(l)
		if ended {
			_ = f.file.Close()
			_ = os.Remove(f.path)
			return
		}
		f.mu.Lock()
		f.failed = err
		f.mu.Unlock()
	}
}

func (f *File) write(l Lease) error {
	_, err := f.file.WriteAt([]byte(line(l, f.boot)), 0)
	return err
}

func line(l Lease, boot string) string {
	text := fmt.Sprintf("%d %s %19d %s ", l.Token, l.Holder, l.StopBy.Nanoseconds(), boot)
	return text + checksum(text) + "\n"
}

func checksum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// tornTries is how often Read tries again if the checksum is wrong: a rewrite takes less
// than a microsecond, unless the writer is preempted.
const tornTries = 5

// Read returns the lease in the file. A file of an earlier boot is an error.
func Read(path string) (Lease, error) {
	boot, err := clockID()
	if err != nil {
		return Lease{}, err
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0) // does not wait for a writer if it is a pipe
	if err != nil {
		return Lease{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	if err := owned(fd); err != nil {
		return Lease{}, &os.PathError{Op: "read", Path: path, Err: err}
	}
	for range tornTries {
		var b [512]byte
		n, err := syscall.Pread(fd, b[:], 0)
		if err != nil {
			return Lease{}, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if l, ok := parse(string(b[:n]), boot); ok {
			return l, nil
		}
		time.Sleep(time.Millisecond)
	}
	return Lease{}, fmt.Errorf("%s is no lease file of this boot", path)
}

func parse(text, boot string) (l Lease, ok bool) {
	fields := strings.Fields(text)
	const all = 5
	if len(fields) != all {
		return Lease{}, false
	}
	token, tokenErr := strconv.ParseInt(fields[0], 10, 64)
	stopBy, stopByErr := strconv.ParseInt(fields[2], 10, 64)
	l = Lease{Token: token, Holder: fields[1], StopBy: time.Duration(stopBy)}
	return l, errors.Join(tokenErr, stopByErr) == nil && text == line(l, boot)
}

// ErrNoBoot says that it is not known which boot this is, so nobody could tell whether a file is of an
// earlier one.
var ErrNoBoot = errors.New("this boot has no id: /proc/sys/kernel/random/boot_id cannot be read")

// clockID names the clock of proc.Now: the boot, and the offset of a time namespace.
func clockID() (string, error) {
	id := proc.BootID()
	if id == "" {
		return "", ErrNoBoot
	}
	return id + clockOffset(), nil
}

// clockOffset returns the offset of CLOCK_BOOTTIME in this time namespace; "" if there is none, as
// before Linux 5.6.
func clockOffset() string {
	offsets, _ := os.ReadFile("/proc/self/timens_offsets")
	for line := range strings.Lines(string(offsets)) {
		var seconds, nanoseconds int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &seconds, &nanoseconds); n == 2 && (seconds != 0 || nanoseconds != 0) {
			return fmt.Sprintf("%+d.%09d", seconds, nanoseconds)
		}
	}
	return ""
}
