package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The module, with its tests, type-checks for every system that it is released
// for. What it imports counts by its declarations only, which is much faster than
// a build; .ci/run builds them all.
func TestSystems(t *testing.T) {
	root, err := os.Getwd()
	must.Succeed(t, err)
	// Of these two, and of the one that tests run on, every file is part: no file is
	// only for macOS on amd64.
	systems := []string{"darwin/arm64", "linux/arm64"}
	if testing.Short() {
		systems = systems[:1]
	}
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			goos, goarch, _ := strings.Cut(system, "/")
			all, err := packages.Load(&packages.Config{
				Mode:  packages.LoadAllSyntax &^ packages.NeedTypesInfo,
				Tests: true,
				Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
				ParseFile: func(set *token.FileSet, name string, text []byte) (*ast.File, error) {
					file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
					if err != nil || strings.HasPrefix(name, root+string(filepath.Separator)) {
						return file, err
					}
					for _, d := range file.Decls {
						if f, ok := d.(*ast.FuncDecl); ok {
							f.Body = nil
						}
					}
					return file, nil
				},
			}, "./...")
			must.Succeed(t, err)
			for _, p := range all {
				if strings.HasSuffix(p.ID, ".test") {
					continue // go test has made it
				}
				for _, err := range p.Errors {
					t.Error(err)
				}
			}
		})
	}
}
