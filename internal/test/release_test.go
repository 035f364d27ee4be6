package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The files of a release are named after its tag, with characters that GitHub does not
// change, and the version in each kind of package sorts like the tag.
func TestRelease(t *testing.T) {
	// A stub of go: each program that it builds prints its arguments, and packages are
	// empty files.
	dir, run := project(t, map[string]string{
		"project/scripts/release":       must.Read(t, "scripts/release"),
		"project/cmd/man/leaderrun.1":   "",
		"project/cmd/man/leaderrun-x.1": "",
		"project/LICENSE":               "",
		"project/CHANGELOG.md":          "",
		"bin/dpkg-deb":                  "#!/bin/sh\necho Package: leaderrun\n",
		"bin/go": `#!/bin/sh
case $1 in
env) echo linux ;;
build)
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\necho "$@"\n' >"$2"
	chmod 755 "$2"
	;;
run)
	echo "$7 $VERSION" >>"$ROOT/calls"
	[ ! -d "$9" ] || set -- 1 2 3 4 5 6 7 8 "$9/$7"
	: >"$9"
	;;
esac
`,
	})
	for _, c := range []struct{ name, tag, version string }{
		{"no tag", "", "0.0.0+1.gCOMMIT"},
		{"a candidate", "v1.0.0-rc.1", "1.0.0-rc.1"},
		{"a commit later", "commit", "1.0.0-rc.1+1.gCOMMIT"},
		{"another candidate", "v1.0.0-rc.10", "1.0.0-rc.10"},
		{"the version of the same commit", "v1.0.0", "1.0.0"},
		{"its rebuild", "v1.0.1", "1.0.1"},
		{"a commit after a version", "commit", "1.0.1+1.gCOMMIT"},
	} {
		args := []string{"tag", c.tag}
		switch c.tag {
		case "":
			args = []string{"status"}
		case "commit":
			args = []string{"commit", "--quiet", "--allow-empty", "--message=m"}
		case "v1.0.0":
			args = []string{"tag", "--annotate", "--message=m", c.tag}
		}
		if out, err := run("git", args...); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, out)
		}
		out := filepath.Join(dir, c.version)
		if said, err := run("../project/scripts/release", out, "linux/arm64"); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, said)
		}
		commit, err := run("git", "rev-parse", "--short=12", "HEAD")
		must.Succeed(t, err)
		version := strings.Replace(c.version, "COMMIT", strings.TrimSpace(commit), 1)
		var want []string
		for _, kind := range []string{"cdx.json", "deb", "rpm", "tar.gz"} {
			want = append(want, "leaderrun_"+version+"_linux_arm64."+kind)
		}
		files, err := filepath.Glob(out + "/leaderrun[^.]*")
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		if err != nil || strings.Join(files, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %q, %v, want %q", c.name, files, err, want)
		}
		calls := strings.Split(strings.TrimSpace(must.Read(t, dir+"/calls")), "\n")
		if got := strings.Join(calls[len(calls)-2:], ", "); got != "deb "+version+", rpm "+version {
			t.Errorf("%s: versions of packages: %s", c.name, got)
		}
		if packages := must.Read(t, out+"/Packages"); !strings.Contains(packages, "Filename: ./leaderrun_"+version+"_linux_arm64.deb\n") {
			t.Errorf("%s: %s", c.name, packages)
		}
	}
}
