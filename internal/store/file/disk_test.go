package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func request(key string) lease.Request {
	return lease.Request{Key: key, Holder: lease.NewHolder("host", 1), TTL: time.Minute}
}

func acquire(t *testing.T, s *Store, r lease.Request) lease.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func TestFileNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	s := open(t, dir)
	names := map[string]string{}
	for _, key := range []string{
		".", "..", "...", "/", "//", "/.", "./", "/..", "../", "../x", "../../etc/x", "/etc/x", "-", "-rf", ":", "a", "A", "a/b", "a.b", "a:b",
		"a-b", "a_b", "a//b", "a/b/", "a.json", "a.lock", "a.tmp", ".a", "a.json.lock", strings.Repeat("x", 200), strings.Repeat("/", 200),
	} {
		acquire(t, s, request(key))
		name, err := fileName(key)
		must.Succeed(t, err)
		if other, taken := names[name]; taken {
			t.Errorf("%q and %q are both %q", key, other, name)
		}
		names[name] = key
		for _, extension := range []string{".json", ".lock", ".tmp"} {
			if base := name + extension; filepath.Base(base) != base || base == "." || base == ".." || len(base) > 255 {
				t.Errorf("%q becomes the file %q", key, base)
			}
		}
		if _, err := os.Stat(dir + "/" + name + ".json"); err != nil {
			t.Errorf("the lease of %q is not in the directory: %v", key, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("x", 201), "a+b", "a b", "a\x00b", "a\n", "ä", "a\\b", "*"} {
		_, err := s.Acquire(t.Context(), request(key))
		if failure, ok := errors.AsType[*lease.StoreError](err); !ok || !failure.Permanent || failure.Hint == "" {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// A name from which its key can be found belongs to no other key.
func FuzzFileNames(f *testing.F) {
	f.Add("a/b")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, key string) {
		name, err := fileName(key)
		if err != nil {
			return
		}
		if strings.ReplaceAll(name, "+", "/") != key || strings.Contains(name, "/") || len(name) > 200 {
			t.Errorf("%q becomes %q", key, name)
		}
	})
}

// A file system that ignores case opens the file of another key.
func TestFileOfAnotherKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, request("job"))
	must.Succeed(t, os.Link(filepath.Join(dir, "job.json"), filepath.Join(dir, "Job.json")))
	if l, err := s.Acquire(t.Context(), request("Job")); err == nil || !strings.Contains(err.Error(), `belongs to key "job"`) {
		t.Errorf("acquire: %+v, error %v", l, err)
	}
}

// A process that died between writing and renaming leaves its temporary file.
func TestRemainderOfACrashIsRemoved(t *testing.T) {
	for name, remainder := range map[string]string{
		"empty":       "",
		"torn":        `{"version":1,"key":"k","tok`,
		"complete":    `{"version":1,"key":"k","token":9000000000000}`,
		"much longer": strings.Repeat("x", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			first := acquire(t, s, request("k"))
			acquire(t, s, request("k.l"))
			write(t, filepath.Join(dir, "k~12345.tmp"), remainder)
			write(t, filepath.Join(dir, "k.l~12345.tmp"), remainder) // of another key, whose update may be under way
			must.Succeed(t, os.Truncate(filepath.Join(dir, "k.lock"), 0))
			if _, err := s.Acquire(t.Context(), request("k")); !errors.As(err, new(*lease.HeldError)) {
				t.Errorf("acquire: %v, want a denial", err)
			}
			must.Succeed(t, s.Release(t.Context(), first, lease.Result{Ran: true}))
			next := acquire(t, s, request("k"))
			if next.Token <= first.Token || next.Token > first.Token+60_000 {
				t.Errorf("token %d after %d", next.Token, first.Token)
			}
			left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
			must.Succeed(t, err)
			if len(left) != 1 || filepath.Base(left[0]) != "k.l~12345.tmp" {
				t.Errorf("temporary files: %q", left)
			}
		})
	}
}

func TestNewStateIsNeverWrittenThroughALink(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	s := open(t, dir)
	write(t, elsewhere, "precious")
	must.Succeed(t, os.Symlink(elsewhere, filepath.Join(dir, "k~12345.tmp")))
	acquire(t, s, request("k"))
	if got, _ := os.ReadFile(elsewhere); string(got) != "precious" {
		t.Errorf("the target became %q", got)
	}
}

// If a cleaner of old files removes the lock file during an update, another process can begin
// an update at the same time.
func TestLockFileRemovedDuringAnUpdate(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fifo := filepath.Join(dir, "k.json")
	must.Succeed(t, unix.Mkfifo(fifo, 0o600))
	slow := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), request("k"))
		slow <- err
	}()
	state := awaitReader(t, fifo)
	must.Succeed(t, os.Remove(filepath.Join(dir, "k.lock")))
	must.Succeed(t, os.Remove(fifo))
	l := acquire(t, s, request("k"))
	_, err := state.WriteString(`{"version":1,"key":"k","token":0}`)
	must.Succeed(t, errors.Join(err, state.Close()))
	var held *lease.HeldError
	if err := <-slow; !errors.As(err, &held) || held.Token != l.Token {
		t.Errorf("acquire: %v, want a denial: another one was granted meanwhile", err)
	}
	if _, err := s.Renew(t.Context(), l); err != nil {
		t.Errorf("renew: %v", err)
	}
}

// awaitReader returns the write end of a fifo once somebody reads from it.
func awaitReader(t *testing.T, fifo string) *os.File {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			return f
		}
		if !errors.Is(err, unix.ENXIO) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A denial must cost no write: standbys poll.
func TestDenialWritesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	acquire(t, s, request("k"))
	before, err := os.Stat(filepath.Join(dir, "k.json"))
	must.Succeed(t, err)
	_, _ = s.Acquire(t.Context(), request("k"))
	after, err := os.Stat(filepath.Join(dir, "k.json"))
	must.Succeed(t, err)
	if !os.SameFile(before, after) {
		t.Error("a denial replaced the file")
	}
}

func TestShortagesAreNotForEver(t *testing.T) {
	for errno, hint := range map[error]string{unix.ENOSPC: "make room", unix.EDQUOT: "make room", unix.EMFILE: "ulimit -n", unix.ENFILE: "ulimit -n", unix.EFBIG: "ulimit -f"} {
		if e := failure(&os.PathError{Op: "write", Path: "k", Err: errno}); e.Permanent || !strings.Contains(e.Hint, hint) {
			t.Errorf("%v: permanent %t, hint %q", errno, e.Permanent, e.Hint)
		}
	}
}

// A kernel makes a file system read-only after an error of its disk.
func TestReadOnlyFileSystemIsNoMatterOfRights(t *testing.T) {
	if e := failure(&os.PathError{Op: "open", Path: "k", Err: unix.EROFS}); !e.Permanent || strings.Contains(e.Hint, "user") || !strings.Contains(e.Hint, "writable") {
		t.Errorf("permanent %t, hint %q", e.Permanent, e.Hint)
	}
}

func TestBusyKeyNamesTheFileAndLeavesOtherKeysAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	resume := keepBusy(t, dir, "k")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Acquire(ctx, request("k"))
	var failure *lease.StoreError
	if !errors.As(err, &failure) || failure.Permanent || failure.Op != "acquire" ||
		!strings.Contains(err.Error(), "another process keeps") || !strings.Contains(failure.Hint, "k.lock") || strings.Contains(err.Error(), "context") {
		t.Errorf("acquire: %#v", err)
	}
	acquire(t, s, request("other"))

	granted := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), request("k"))
		granted <- err
	}()
	resume()
	must.Succeed(t, <-granted)
}

// A fifo stands for a disk that hangs: opening it blocks for ever.
func TestCallsOnAHangingDiskEndWithTheContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fifo := filepath.Join(dir, "k.json")
	must.Succeed(t, unix.Mkfifo(fifo, 0o600))
	for op, call := range map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, request("k")); return err },
		"wait":    func(ctx context.Context) error { return s.Wait(ctx, "k", time.Hour) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := call(ctx)
		if failure, ok := errors.AsType[*lease.StoreError](err); !ok || failure.Permanent || failure.Op != op || strings.Contains(err.Error(), "context") {
			t.Errorf("%s: %v", op, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %s", op, took)
		}
	}
	end, err := os.OpenFile(fifo, os.O_RDWR, 0) // lets the calls that were given up go on
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(fifo)) // and later calls
	must.Succeed(t, end.Close())
}

// A call that goes on after its context has ended writes nothing.
func TestNothingIsWrittenAfterTheContextEnded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err := s.Acquire(ctx, request("k")); !errors.As(err, new(*lease.StoreError)) {
		t.Errorf("acquire: %+v, error %v", l, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "k.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state after an acquire that failed: %v", err)
	}
}
