package run

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

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
