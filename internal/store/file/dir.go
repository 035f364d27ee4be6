package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func makeDir(dir string) error {
	const own = 0o700
	err := os.Mkdir(dir, own)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_ = os.Chmod(dir, own) // whatever the umask is; some file systems have fixed modes
	err = syncDir(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) { // this user may write there, but not read
		return nil
	}
	return err
}

// checkDir refuses a directory in which others could create, replace or lock files, or that
// another kernel may share. A sticky bit is not enough: others cannot remove files, but they
// can create a file first.
func checkDir(dir string) *lease.StoreError {
	info, err := os.Lstat(dir)
	if err != nil {
		return &lease.StoreError{Err: err, Hint: "create the directory, for its user only (mode 0700)"}
	}
	refuse := func(hint, why string, args ...any) *lease.StoreError {
		return &lease.StoreError{Err: unfit{fmt.Errorf("%s %s", dir, fmt.Sprintf(why, args...))}, Permanent: true, Hint: hint}
	}
	switch owner, me := info.Sys().(*syscall.Stat_t).Uid, os.Geteuid(); {
	case info.Mode()&fs.ModeSymlink != 0:
		return refuse("name the directory it points to", "is a symbolic link")
	case !info.IsDir():
		return refuse("choose another path", "is not a directory")
	case int(owner) != me:
		return refuse("use a directory of your own", "belongs to user %d, and this is user %d", owner, me)
	case info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o022 != 0: // everybody may write there, as in /tmp
		return refuse("use a new directory below it", "is writable by others (mode 1%03o)", info.Mode().Perm())
	case info.Mode().Perm()&0o022 != 0:
		return refuse("run `chmod go-w "+dir+"`, or use a new directory below it", "is writable by others (mode %04o)", info.Mode().Perm())
	}
	network, err := networkFS(dir)
	if err != nil {
		return &lease.StoreError{Err: fmt.Errorf("%s: file system unknown: %w", dir, err), Hint: "use a directory on a local disk"}
	}
	if network != "" {
		return refuse("use a directory on a local disk, or a store for several hosts", "is on a file system that other hosts may share (%s)", network)
	}
	return nil
}
