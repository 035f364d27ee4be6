package run

import (
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/silentfs"
)

// The file is given up on if its file system does not answer.
func TestOutcomeFileOnASilentFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/mnt"
	silent := silentfs.Mount(t, dir)
	late := time.AfterFunc(time.Minute, silent.End) // otherwise a test that waits could not even be killed
	defer late.Stop()
	err := WriteOutcomeFile(settings.Config{OutcomeFile: dir + "/outcome"}, campaign.Result{})
	if err == nil || !strings.Contains(err.Error(), "its disk has not answered for 10s") {
		t.Error(err)
	}
	silent.End()
}

// The outcome file needs only a directory that its user may write to.
func TestOutcomeFileWithoutRights(t *testing.T) {
	t.Chdir(t.TempDir())
	want := map[string]bool{"writable": true, "unreadable": true, "read-only": false, "unsearchable": false}
	for dir, mode := range map[string]fs.FileMode{"writable": 0o777, "unreadable": 0o333, "read-only": 0o555, "unsearchable": 0o666} {
		must.Succeed(t, os.Mkdir(dir, 0o700))
		must.Succeed(t, os.Chmod(dir, mode))
	}
	got := make(chan map[string]bool)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its rights
		const nobody = 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 && os.Getuid() == 0 {
			t.Error(errno)
		}
		all := map[string]bool{}
		for dir := range want {
			all[dir] = CheckOutcomeFile(&settings.Config{OutcomeFile: dir + "/outcome"}) == nil
		}
		got <- all
	}()
	for dir, well := range <-got {
		if well != want[dir] {
			t.Errorf("%s: accepted %t, want %t", dir, well, want[dir])
		}
	}
}
