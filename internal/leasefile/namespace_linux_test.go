package leasefile

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// inside runs this test once more in other namespaces, with the variable set.
func inside(t *testing.T, variable string, unshare ...string) (output string) {
	t.Helper()
	if err := exec.Command("unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skipf("this machine allows no such namespaces: %v", err)
	}
	cmd := exec.Command("unshare", append(unshare, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

// A command with another clock than its elector must not take stop-by for one of its own times.
func TestOtherClock(t *testing.T) {
	const variable = "LEASEFILE_TEST_FILE"
	if path, ok := os.LookupEnv(variable); ok {
		if l, err := Read(path); err == nil {
			t.Errorf("with another clock it is read as %v", l)
		}
		own, err := Create([]string{t.TempDir()}, some)
		must.Succeed(t, err)
		if l, err := Read(own.Path()); err != nil || l != some {
			t.Errorf("with the same clock it is read as %v, %v", l, err)
		}
		return
	}
	f := create(t)
	inside(t, variable+"="+f.Path(), "--time", "--boottime", "-100", "--fork")
}

// In a user namespace without root /tmp belongs to nobody who is known there.
func TestRootIsNotMapped(t *testing.T) {
	const variable = "LEASEFILE_TEST_DIR"
	if dir, ok := os.LookupEnv(variable); ok {
		f, err := Create([]string{dir}, some)
		if err == nil {
			t.Log("created " + f.Path())
			f.Remove()
			f.Close()
		} else {
			t.Log(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give directories away")
	}
	dir := t.TempDir()
	must.Succeed(t, os.Chown(dir, 12345, -1))
	unmapped := []string{"--user", "--map-user", "1000", "--map-group", "1000"}
	must.Succeed(t, os.Chmod(dir, os.ModeSticky|0o777))
	if out := inside(t, variable+"="+dir, unmapped...); !strings.Contains(out, "created "+dir) {
		t.Errorf("in a sticky directory of one who is not mapped: %s", out)
	}
	must.Succeed(t, os.Chmod(dir, 0o777))
	if out := inside(t, variable+"="+dir, unmapped...); !strings.Contains(out, "it belongs to user") {
		t.Errorf("in another one: %s", out)
	}
	must.Succeed(t, os.Chmod(dir, os.ModeSticky|0o777))
	if _, err := Create([]string{dir}, some); err == nil {
		t.Error("a sticky directory of another user who is known here counts as trusted")
	}
}
