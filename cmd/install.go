package cmd

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/settings"
)

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install PATH",
		Short: "Copy this program to a file or into a directory",
		Long: `Copy this program to a file or into a directory. An init container with leaderrun's image copies it into a volume, and a
container with any other image runs it from there.`,
		Example: "  leaderrun install /shared/leaderrun",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return &settings.Error{Problem: "install needs one path", Hint: "leaderrun install /shared/leaderrun"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := install(args[0]); err != nil {
				return &settings.Error{Problem: "not installed: " + settings.Redact(args[0]) + ": " + settings.Cause(err), Hint: "name a file in a directory that exists and is writable"}
			}
			return nil
		},
	}
}

// install replaces the file atomically, so processes that run the old one are not
// disturbed.
func install(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "leaderrun")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	whole, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	// In one write: the kernel then keeps the file in large pieces, and it starts sooner.
	const executable = 0o755
	return renameio.WriteFile(path, whole, executable, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(executable))
}
