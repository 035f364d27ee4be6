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
	_, err := s.Acquire(t.Context(), request("Job"))
	if e, ok := errors.AsType[*lease.StoreError](err); !ok || !strings.Contains(e.Error(), `belongs to key "job"`) || !strings.Contains(e.Hint, "names of both keys for one") {
		t.Errorf("error %v", err)
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
	acquire(t, s, request("k"))
	path := filepath.Join(dir, "k")
	slow, err := tryTurn(path)
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(path+".lock"))
	if _, err := s.Revoke(t.Context(), "k", true); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, s, request("k"))
	before := must.Read(t, path+".json")
	if err := slow.replace([]byte("{}"), false); !errors.Is(err, errTurnTaken) {
		t.Errorf("replaced after another turn: %v", err)
	}
	if after := must.Read(t, path+".json"); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if _, err := s.Renew(t.Context(), l); err != nil {
		t.Errorf("renew: %v", err)
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

// What stands in the place of a lock file is refused before anything is written.
func TestLockFileIsNone(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a symbolic link": func(path string) error { return os.Symlink(path+".elsewhere", path) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		s := open(t, dir)
		l := acquire(t, s, request("k"))
		must.Succeed(t, os.Remove(file(t, dir, "k", ".lock")))
		must.Succeed(t, put(file(t, dir, "k", ".lock")))
		err := s.Release(t.Context(), l, lease.Result{})
		if failure, ok := errors.AsType[*lease.StoreError](err); !ok || !failure.Permanent || !strings.Contains(failure.Hint, "remove it") {
			t.Errorf("%s: release: %v", name, err)
		}
	}
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
