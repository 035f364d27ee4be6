package test

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// In these packages the references between files have no cycles, so the files can be read in
// order.
func TestFilesOfAPackageHaveAnOrder(t *testing.T) {
	for _, dir := range []string{"cmd", "internal/settings", "internal/run"} {
		uses := references(t, dir)
		done := map[string]bool{}
		var visit func(file string, from []string)
		visit = func(file string, from []string) {
			if i := slices.Index(from, file); i >= 0 {
				t.Errorf("%s: files use each other: %s", dir, strings.Join(append(from[i:], file), " -> "))
				return
			}
			if done[file] {
				return
			}
			for _, used := range slices.Sorted(maps.Keys(uses[file])) {
				visit(used, append(slices.Clone(from), file))
			}
			done[file] = true
		}
		for _, file := range slices.Sorted(maps.Keys(uses)) {
			visit(file, nil)
		}
	}
}

// references returns, for each file of a package, the files it uses.
func references(t *testing.T, dir string) map[string]map[string]bool {
	t.Helper()
	set := token.NewFileSet()
	files := slices.Collect(maps.Values(parse(t, set, dir)))
	// Imported packages are empty: only references within the package count.
	config := types.Config{Importer: empty{}, Error: func(error) {}}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, _ := config.Check(dir, set, files, info)
	uses := map[string]map[string]bool{}
	for id, object := range info.Uses {
		from, to := set.File(id.Pos()), set.File(object.Pos())
		if object.Pkg() != pkg || to == nil || from == to {
			continue
		}
		file := filepath.Base(from.Name())
		if uses[file] == nil {
			uses[file] = map[string]bool{}
		}
		uses[file][filepath.Base(to.Name())] = true
	}
	if len(files) > 1 && len(uses) == 0 {
		t.Errorf("%s: no file uses another", dir)
	}
	return uses
}

// empty imports packages without anything in them.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
