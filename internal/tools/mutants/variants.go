package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	nth                         int // among those of the function with the same change, from 1
	text                        []byte
}

// String names it without a line number, which other changes would move.
func (v variant) String() string {
	return fmt.Sprintf("%s/%s %s: %s #%d", v.dir, filepath.Base(v.path), v.function, v.change, v.nth)
}

// variantsOf makes all variants of a package, in the order of its files and lines.
func variantsOf(name string) (all []variant, err error) {
	out, err := exec.Command("go", "list", "-json=Dir,GoFiles,ImportPath,Module", name).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", name, err)
	}
	var p struct {
		Dir, ImportPath string
		GoFiles         []string
		Module          struct{ Path string }
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for _, file := range p.GoFiles {
		path := filepath.Join(p.Dir, file)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mistakes, err := mistakesIn(text)
		if err != nil {
			return nil, err
		}
		for _, m := range mistakes {
			v := variant{dir: strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), path: path, function: m.function, change: m.describe(text)}
			v.text = slices.Concat(text[:m.from], []byte(m.with), text[m.to:])
			seen[v.String()]++
			v.nth = seen[v.String()]
			all = append(all, v)
		}
	}
	return all, nil
}

// mistake replaces the bytes from..to of a file.
type mistake struct {
	function string
	from, to int
	with     string
	shown    [2]int // the bytes of what is around it
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

func mistakesIn(text []byte) (all []mistake, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, 0)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		add := func(around ast.Node, from, to token.Pos, with string) {
			all = append(all, mistake{f.Name.Name, at(from), at(to), with, [2]int{at(around.Pos()), at(around.End())}})
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if other, ok := operators[n.Op]; ok {
					add(n, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
				}
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					add(n, n.Pos(), n.X.Pos(), "")
				}
			case *ast.IfStmt:
				switch n.Cond.(type) {
				case *ast.BinaryExpr, *ast.UnaryExpr: // above
				default:
					add(n.Cond, n.Cond.Pos(), n.Cond.Pos(), "!")
				}
			case *ast.BasicLit:
				if i, err := strconv.Atoi(n.Value); err == nil {
					add(n, n.Pos(), n.End(), strconv.Itoa(i+1))
				}
			case *ast.Ident:
				if other, ok := words[n.Name]; ok {
					add(n, n.Pos(), n.End(), other)
				}
			case *ast.ExprStmt, *ast.IncDecStmt:
				add(n, n.Pos(), n.End(), "")
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					add(n, n.Pos(), n.End(), "")
				}
			}
			return true
		})
	}
	return slices.DeleteFunc(all, func(m mistake) bool { return bytes.Equal(text[m.from:m.to], []byte(m.with)) }), nil
}
