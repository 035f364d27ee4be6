package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// One program has many mistakes, and the end of its name says which one it makes. To compile
// and link a program for each mistake would take most of the time. A process that it starts
// again, such as a guard, keeps only the name.

// turnsOn returns the source of the function that says whether a mistake is made. It imports
// only syscall, so that nothing else is initialised with the package.
func (p *source) turnsOn() []byte {
	return fmt.Appendf(nil, `package %s

import "syscall"

var theMistake = func() (n int) {
	var path [4096]byte
	length, _ := syscall.Readlink("/proc/self/exe", path[:])
	for _, c := range path[:max(length, 0)] {
		if n = 10*n + int(c-'0'); c < '0' || c > '9' {
			n = 0
		}
	}
	return n
}()

func makes(mistake int) bool { return theMistake == mistake }
`, p.Name)
}

// insertion is text before an offset of a file.
type insertion struct {
	at, size int
	closes   bool
	text     string
}

// choice returns what has to be inserted so that the n-th mistake can be made.
func (m mistake) choice(n int, text []byte) []insertion {
	from, to := m.chosen[0], m.chosen[1]
	wrong := string(slices.Concat(text[from:m.from], []byte(m.with), text[m.to:to]))
	before, after := fmt.Sprintf("if !makes(%d) { ", n), " }"
	switch m.of {
	case "":
	case "bool":
		before, after = fmt.Sprintf("(makes(%[1]d) && (%[2]s) || !makes(%[1]d) && (", n, wrong), "))"
	default:
		before, after = fmt.Sprintf("func() %s { if makes(%d) { return %s }; return ", m.of, n, wrong), " }()"
	}
	return []insertion{{at: from, size: to - from, text: before}, {at: to, size: to - from, closes: true, text: after}}
}

// insert puts all insertions into the text. An outer one begins before and ends after an
// inner one.
func insert(text []byte, all []insertion) []byte {
	slices.SortStableFunc(all, func(a, b insertion) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.closes != b.closes: // an end comes before a beginning
			return map[bool]int{true: -1, false: 1}[a.closes]
		case a.closes:
			return cmp.Compare(a.size, b.size)
		}
		return cmp.Compare(b.size, a.size)
	})
	var b strings.Builder
	last := 0
	for _, i := range all {
		b.Write(text[last:i.at])
		b.WriteString(i.text)
		last = i.at
	}
	b.Write(text[last:])
	return []byte(b.String())
}

// choose marks the variants that do not compile and those that need their own program. It
// returns the files of the program that has all others, in which the i-th variant has the
// number i+1.
func (p *source) choose(variants []variant) map[string][]byte {
	together := map[string][]insertion{}
	for i := range variants {
		v := &variants[i]
		text := p.texts[v.path]
		v.broken = !p.compiles(v.path, v.text)
		v.apart = v.mistake.chosen[0] == v.mistake.chosen[1]
		if v.broken || v.apart {
			continue
		}
		choice := v.mistake.choice(i+1, text)
		if v.apart = !p.compiles(v.path, insert(text, choice)); !v.apart {
			together[v.path] = append(together[v.path], choice...)
		}
	}
	files := map[string][]byte{filepath.Join(p.Dir, "0mistake.go"): p.turnsOn()}
	for path, all := range together {
		files[path] = insert(p.texts[path], all)
	}
	return files
}
