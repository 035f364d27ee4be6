package leasefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

var some = Lease{Token: 1795241090012, Holder: "web1/812/0123456789abcdef0123456789abcdef", StopBy: 21 * time.Second}

func create(t *testing.T) *File {
	t.Helper()
	f, err := Create([]string{t.TempDir()}, some)
	must.Succeed(t, err)
	t.Cleanup(func() {
		f.Remove()
		f.Close()
	})
	return f
}

// The reader may be an older or newer program than the writer: docs/compatibility.md
// promises this form of the line.
func TestLine(t *testing.T) {
	const boot = "46639c47-0f99-42b1-8c93-dcb308c34223"
	const want = "1795241090012 web1/812/0123456789abcdef0123456789abcdef         21000000000 " + boot + " 9413c6f1\n"
	if got := line(some, boot); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if l, ok := parse(want, boot); !ok || l != some {
		t.Errorf("read as %v, %v", l, ok)
	}
}

// awaitStopBy waits until another goroutine has written want.
func awaitStopBy(t *testing.T, path string, want time.Duration) {
	t.Helper()
	var l Lease
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if l, err = Read(path); err == nil && l.StopBy == want {
			return
		}
	}
	t.Fatalf("the file says %v (%v), want %v", l, err, want)
}

func TestLifeOfAFile(t *testing.T) {
	f := create(t)
	if l, err := Read(f.Path()); err != nil || l != some {
		t.Errorf("read %v, %v, want %v", l, err, some)
	}
	info, err := os.Stat(f.Path())
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v, want a regular file of mode 0600", info.Mode(), err)
	}
	if err := f.Update(9 * 24 * time.Hour); err != nil {
		t.Error(err)
	}
	awaitStopBy(t, f.Path(), 9*24*time.Hour)
	if err := f.Update(0); err != nil {
		t.Error(err)
	}
	awaitStopBy(t, f.Path(), 0)
	if again, err := os.Stat(f.Path()); err != nil || again.Size() != info.Size() || !os.SameFile(info, again) {
		t.Errorf("it is not the same file of the same size any more: %v", err)
	}
	f.Remove()
	f.Close()
	if _, err := Read(f.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// The command must be able to read the file, whatever its caller's umask is.
func TestModeWithoutUmask(t *testing.T) {
	dir := t.TempDir()
	before := syscall.Umask(0o777)
	f, err := Create([]string{dir}, some)
	syscall.Umask(before)
	must.Succeed(t, err)
	defer f.Close()
	defer f.Remove()
	if info, err := os.Stat(f.Path()); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v, want a regular file of mode 0600", info.Mode(), err)
	}
}

// A process that has the file open when it is removed sees the end of the lease, too.
func TestRemovedFileEndsTheLease(t *testing.T) {
	f := create(t)
	other := f.Path() + ".other"
	must.Succeed(t, os.Link(f.Path(), other))
	f.Remove()
	f.Close()
	awaitStopBy(t, other, 0)
}

func TestFirstUsableDirectory(t *testing.T) {
	good := t.TempDir()
	missing := filepath.Join(good, "missing")
	f, err := Create([]string{"", ".", missing, good, t.TempDir()}, some)
	must.Succeed(t, err)
	if filepath.Dir(f.Path()) != good {
		t.Errorf("it is %s, want it in %s", f.Path(), good)
	}
	_, err = Create([]string{"", missing, good}, some) // the name is taken
	if err == nil || !strings.Contains(err.Error(), missing+": no such file or directory; "+good+": file exists") {
		t.Errorf("where nothing can be made: %v", err)
	}
	f.Remove()
	f.Close()
	if left, err := os.ReadDir(good); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// stuck is a disk whose writes wait for goOn and then fail.
type stuck struct{ writing, goOn chan struct{} }

func (s stuck) WriteAt(b []byte, _ int64) (int, error) {
	s.writing <- struct{}{}
	<-s.goOn
	return len(b), errors.New("disk failure")
}

func (s stuck) Close() error { return nil }

func TestUpdateDoesNotWaitForTheDisk(t *testing.T) {
	disk := stuck{make(chan struct{}), make(chan struct{})}
	f := &File{path: filepath.Join(t.TempDir(), "f"), file: disk, boot: "boot", lease: some, changed: make(chan struct{}, 1), removed: make(chan struct{})}
	finished := make(chan error)
	go func() {
		_ = f.Update(1)
		<-disk.writing
		for i := range 1000 {
			_ = f.Update(time.Duration(i))
		}
		finished <- f.Update(2)
	}()
	select {
	case err := <-finished:
		if err != nil {
			t.Errorf("before any write ended: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("an update waits for the disk")
	}
	disk.goOn <- struct{}{}
	<-disk.writing // all updates meanwhile are one write
	if err := f.Update(3); err == nil {
		t.Error("the failure of a write is not reported")
	}
	f.Remove()
	began := time.Now()
	f.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end waited %v for the disk", took)
	}
	disk.goOn <- struct{}{}
	<-disk.writing
	disk.goOn <- struct{}{}
	<-f.removed
}

func TestReadRefuses(t *testing.T) {
	boot, err := clockID()
	must.Succeed(t, err)
	now, later := line(some, boot), line(Lease{some.Token, some.Holder, 30 * time.Second}, boot)
	torn := strings.LastIndex(now, " 21000000000 ") + 2
	if now == later || len(now) != len(later) || torn < 2 {
		t.Fatalf("%q and %q", now, later)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nothing":          "",
		"garbage":          "garbage\n",
		"no end":           strings.TrimSuffix(now, "\n"),
		"more":             now + now,
		"torn":             later[:torn] + now[torn:],
		"a digit changed":  strings.Replace(now, " 21000000000 ", " 91000000000 ", 1),
		"other spaces":     strings.Replace(now, "  ", " ", 1),
		"an earlier boot":  line(some, "00000000-0000-0000-0000-000000000000"),
		"no number":        strings.Replace(now, "1795241090012", "token", 1),
		"very long":        strings.Repeat("x", 1<<20),
		"another checksum": now[:len(now)-9] + "00000000\n",
	} {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		if l, err := Read(path); err == nil {
			t.Errorf("%s: read as %v", name, l)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	must.Succeed(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, dir, "", filepath.Join(dir, "missing")} {
		if l, err := Read(path); err == nil {
			t.Errorf("%q: read as %v", path, l)
		}
	}
}

// A concurrent reader sees one of the lines or none, never parts of two.
func TestNoTornRead(t *testing.T) {
	f := create(t)
	values := []time.Duration{1_999_999_999_999_999, 2_000_000_000_000_000}
	end := make(chan struct{})
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
				if err := f.write(Lease{some.Token, some.Holder, values[i%2]}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	seen := map[time.Duration]int{}
	for range 20_000 {
		if l, err := Read(f.Path()); err == nil {
			seen[l.StopBy]++
		}
	}
	close(end)
	<-written
	delete(seen, some.StopBy) // before the first write
	if seen[values[0]] == 0 || seen[values[1]] == 0 || len(seen) > 2 {
		t.Errorf("seen %v, want the values of %v", seen, values)
	}
}

// Another user's directory (sudo -E) is not used, and another user's file is not read: it
// could claim that this command leads.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const other = 12345
	dir, own := t.TempDir(), t.TempDir()
	must.Succeed(t, os.Chown(dir, other, -1))
	if _, err := Create([]string{dir}, some); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("in another user's directory: %v", err)
	}
	f, err := Create([]string{dir, own}, some)
	if err != nil || filepath.Dir(f.Path()) != own {
		t.Fatalf("with a directory of its own behind: %v", err)
	}
	defer f.Close()
	defer f.Remove()
	must.Succeed(t, os.Chown(f.Path(), other, -1))
	if l, err := Read(f.Path()); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("another user's file says %+v (%v)", l, err)
	}
}
