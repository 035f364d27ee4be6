package test

import (
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/zip"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// TestInstall looks for what `go install …@latest` refuses: file names that are invalid on
// other systems, and replaced modules.
func TestInstall(t *testing.T) {
	files, err := zip.CheckDir(".")
	if err == nil {
		err = files.Err()
	}
	if err != nil {
		t.Error(err)
	}
	module, err := modfile.Parse("go.mod", []byte(must.Read(t, "go.mod")), nil)
	must.Succeed(t, err)
	if len(module.Replace)+len(module.Exclude) > 0 {
		t.Errorf("it has %d replace and %d exclude lines", len(module.Replace), len(module.Exclude))
	}
}
