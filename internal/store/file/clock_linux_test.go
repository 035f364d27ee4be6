package file

import (
	"os"
	"os/exec"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Two containers that share a directory may have time namespaces, in which different times
// have passed since the boot. Whichever is ahead, a holder in one keeps the other out.
func TestTimeNamespacesExcludeEachOther(t *testing.T) {
	t.Parallel()
	dayAhead := []string{"--map-root-user", "--time", "--boottime", "86400", "--fork"}
	if err := exec.CommandContext(t.Context(), "unshare", append(dayAhead, "true")...).Run(); err != nil {
		t.Skipf("this machine allows no namespaces: %v", err)
	}
	ahead := func(role, dir string) error {
		cmd := inRole(t, role, dir)
		inside := exec.CommandContext(t.Context(), "unshare", append(dayAhead, cmd.Args...)...)
		inside.Env, inside.Stderr = cmd.Env, os.Stderr
		return inside.Run()
	}
	dir := private(t, t.TempDir())
	must.Succeed(t, takeKey(dir))
	if err := ahead("denied", dir); err != nil {
		t.Errorf("a candidate that is ahead: %v", err)
	}
	dir = private(t, t.TempDir())
	must.Succeed(t, ahead("takes", dir))
	if err := isDenied(dir); err != nil {
		t.Errorf("a candidate that is behind: %v", err)
	}
}
