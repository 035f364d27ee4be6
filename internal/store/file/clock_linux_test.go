package file

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	exclude(t, dayAhead)
}

// exclude checks that processes in the namespaces of unshare(1) with args and outside exclude
// each other.
func exclude(t *testing.T, args []string) {
	inside := func(role, dir string) error {
		cmd := inRole(t, role, dir)
		inside := exec.CommandContext(t.Context(), "unshare", append(slices.Clone(args), cmd.Args...)...)
		inside.Env, inside.Stderr = cmd.Env, os.Stderr
		return inside.Run()
	}
	dir := private(t, t.TempDir())
	must.Succeed(t, takeKey(dir))
	if err := inside("denied", dir); err != nil {
		t.Errorf("a candidate inside: %v", err)
	}
	dir = private(t, t.TempDir())
	must.Succeed(t, inside("takes", dir))
	if err := isDenied(dir); err != nil {
		t.Errorf("a candidate outside: %v", err)
	}
}

// A container may have a boot id of its own: systemd-nspawn and LXC mount a random one. A holder
// outside keeps a candidate inside out, and the other way round.
func TestBootIDsOfContainersExcludeEachOther(t *testing.T) {
	t.Parallel()
	id := filepath.Join(t.TempDir(), "boot_id")
	must.Succeed(t, os.WriteFile(id, []byte("11111111-2222-3333-4444-555555555555\n"), 0o644))
	contained := []string{"--map-root-user", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, id}
	if err := exec.CommandContext(t.Context(), "unshare", append(contained, "true")...).Run(); err != nil {
		t.Skipf("this machine allows no namespaces: %v", err)
	}
	exclude(t, contained)
}
