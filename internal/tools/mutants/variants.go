package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// variant is a file of the package with one mistake.
type variant struct {
	dir, path, function, change string
	nth                         int // number among the same changes of the function, from 1
	text                        []byte
	mistake                     mistake
	broken                      bool // it does not compile
	apart                       bool // it needs its own program
}

// String names it without a line number, which other changes would move.
func (v variant) String() string {
	return fmt.Sprintf("%s/%s %s: %s #%d", v.dir, filepath.Base(v.path), v.function, v.change, v.nth)
}

// source is an unchanged package.
type source struct {
	Dir, ImportPath, Name string
	GoFiles               []string
	Module                struct{ Path string }

	set      *token.FileSet
	texts    map[string][]byte // by path
	files    map[string]*ast.File
	info     types.Info
	importer types.Importer
}

func readPackage(name string) (*source, error) {
	p := &source{set: token.NewFileSet(), texts: map[string][]byte{}, files: map[string]*ast.File{}}
	out, err := exec.Command("go", "list", "-json=Dir,GoFiles,ImportPath,Name,Module", name).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", name, err)
	}
	if err := json.Unmarshal(out, p); err != nil {
		return nil, err
	}
	for _, file := range p.GoFiles {
		path := filepath.Join(p.Dir, file)
		if p.texts[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if p.files[path], err = parser.ParseFile(p.set, path, p.texts[path], 0); err != nil {
			return nil, err
		}
	}
	out, err = exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", name).Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export %s: %w", name, err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		of, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[of] = file
	}
	p.importer = importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	p.info.Types = map[ast.Expr]types.TypeAndValue{}
	return p, p.check(p.files, &p.info)
}

func (p *source) check(files map[string]*ast.File, info *types.Info) error {
	var all []*ast.File
	for _, name := range p.GoFiles {
		all = append(all, files[filepath.Join(p.Dir, name)])
	}
	if more := files[""]; more != nil {
		all = append(all, more)
	}
	_, err := (&types.Config{Importer: p.importer}).Check(p.ImportPath, p.set, all, info)
	return err
}

// compiles reports whether the package compiles with another text for a file and with the
// function that turns mistakes on.
func (p *source) compiles(path string, text []byte) bool {
	files := maps.Clone(p.files)
	changed, errChanged := parser.ParseFile(p.set, path, text, 0)
	on, errOn := parser.ParseFile(p.set, "", p.turnsOn(), 0)
	files[path], files[""] = changed, on
	return errChanged == nil && errOn == nil && p.check(files, nil) == nil
}

// variantsOf returns all variants of a package, in the order of its files and lines.
func variantsOf(p *source) (all []variant) {
	seen := map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(p.texts)) {
		text := p.texts[path]
		for _, m := range p.mistakesIn(path) {
			v := variant{dir: strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), path: path, function: m.function, change: m.describe(text), mistake: m}
			v.text = slices.Concat(text[:m.from], []byte(m.with), text[m.to:])
			seen[v.String()]++
			v.nth = seen[v.String()]
			all = append(all, v)
		}
	}
	return all
}

// mistake replaces the bytes from..to of a file.
type mistake struct {
	function string
	from, to int
	with     string
	shown    [2]int // the bytes that describe shows

	// The bytes of an expression, or of a statement if its type is "", that can be replaced while
	// the program runs; nothing can if the two are equal.
	chosen [2]int
	of     string
}

// describe shows it in one line.
func (m mistake) describe(text []byte) string {
	line := func(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }
	from, to := m.shown[0], m.shown[1]
	if m.with == "" && m.from == from && m.to == to {
		return "without " + line(text[from:to])
	}
	return line(text[from:to]) + " => " + line(slices.Concat(text[from:m.from], []byte(m.with), text[m.to:to]))
}

var operators = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

var words = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}

func (p *source) mistakesIn(path string) []mistake {
	text, file := p.texts[path], p.files[path]
	f := finder{source: p, file: file}
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			f.function = d.Name.Name
			f.search(d.Body)
		}
	}
	return slices.DeleteFunc(f.found, func(m mistake) bool { return bytes.Equal(text[m.from:m.to], []byte(m.with)) })
}

// finder finds the mistakes of a function in a file.
type finder struct {
	*source
	file     *ast.File
	function string
	found    []mistake
}

// add adds a mistake that replaces from..to.
func (f *finder) add(around, chosen ast.Node, from, to token.Pos, with string) {
	at := func(pos token.Pos) int { return f.set.Position(pos).Offset }
	m := mistake{function: f.function, from: at(from), to: at(to), with: with, shown: [2]int{at(around.Pos()), at(around.End())}}
	if chosen != nil {
		m.chosen = [2]int{at(chosen.Pos()), at(chosen.End())}
	}
	if e, ok := chosen.(ast.Expr); ok {
		m.of = f.typeOf(e, f.file)
	}
	f.found = append(f.found, m)
}

func (f *finder) search(body *ast.BlockStmt) {
	parents := []ast.Node{nil}
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		f.visit(n, parents[len(parents)-1])
		parents = append(parents, n)
		return true
	})
}

func (f *finder) visit(n, parent ast.Node) {
	var whole ast.Node // a statement of a list
	switch parent.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		whole = n
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if other, ok := operators[n.Op]; ok {
			f.add(n, n, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add(n, n, n.Pos(), n.X.Pos(), "")
		}
	case *ast.IfStmt:
		switch n.Cond.(type) {
		case *ast.BinaryExpr, *ast.UnaryExpr: // above
		default:
			f.add(n.Cond, n.Cond, n.Cond.Pos(), n.Cond.Pos(), "!")
		}
	case *ast.BasicLit:
		if i, err := strconv.Atoi(n.Value); err == nil {
			f.add(n, n, n.Pos(), n.End(), strconv.Itoa(i+1))
		}
	case *ast.Ident:
		if other, ok := words[n.Name]; ok {
			chosen := ast.Node(n)
			if _, ok := parent.(*ast.CallExpr); ok && len(n.Name) == len("min") {
				chosen = parent
			}
			f.add(n, chosen, n.Pos(), n.End(), other)
		}
	case *ast.ExprStmt, *ast.IncDecStmt:
		f.add(n, whole, n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.add(n, whole, n.Pos(), n.End(), "")
		}
	}
}

// typeOf returns the name of an expression's type in the file.
func (p *source) typeOf(e ast.Expr, file *ast.File) string {
	t := p.info.TypeOf(e)
	if t == nil {
		return ""
	}
	return types.TypeString(types.Default(t), func(other *types.Package) string {
		if other.Path() == p.ImportPath {
			return ""
		}
		for _, i := range file.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); path == other.Path() && i.Name != nil {
				return i.Name.Name
			}
		}
		return other.Name()
	})
}
