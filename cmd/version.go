package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, and what it was built from",
		Long:  "Show the version, and what it was built from.",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return writeAnswer(versionText(buildInfo()) + "\n")
		},
	}
}

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{Main: debug.Module{Version: "(unknown)"}}
	}
	return info
}

// versionText describes the build: module version, source revision, Go, platform.
func versionText(info *debug.BuildInfo) string {
	revision, modified := "unknown revision", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return fmt.Sprintf("leaderrun %s (%s%s)\n%s %s/%s", info.Main.Version, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
