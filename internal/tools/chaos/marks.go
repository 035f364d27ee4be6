//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

// life is the time in which one process of a tree lived, by its own marks.
type life struct {
	file, kind  string
	pid         int
	first, last time.Duration
}

// tree is one run of the command: all processes that wrote marks with the same token.
type tree struct {
	token       int64
	who         int // the candidate's number; those of newcomers begin at candidates
	first, last time.Duration
	lives       []life
}

// trees returns the trees with marks in the folder, in the order of their first marks.
func trees(dir string) ([]tree, error) {
	names, err := filepath.Glob(dir + "/*-*-*-*")
	if err != nil {
		return nil, err
	}
	type run struct { // not only the token: a store that has lost data may grant one twice
		token int64
		who   int
	}
	byRun := map[run]*tree{}
	for _, name := range names {
		var token int64
		var who int
		l := life{file: name}
		fields := strings.ReplaceAll(filepath.Base(name), "-", " ")
		if _, err := fmt.Sscan(fields, &token, &who, &l.kind, &l.pid); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if l.first, l.last, err = ends(name); err != nil {
			return nil, err
		}
		if l.first == 0 { // it has not written yet
			continue
		}
		t := byRun[run{token, who}]
		if t == nil {
			t = &tree{token: token, who: who, first: l.first}
			byRun[run{token, who}] = t
		}
		t.first, t.last = min(t.first, l.first), max(t.last, l.last)
		t.lives = append(t.lives, l)
	}
	var all []tree
	for _, t := range byRun {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b tree) int { return cmp.Compare(a.first, b.first) })
	return all, nil
}

// ends returns the first and the last mark in a file, 0 if it is empty.
func ends(name string) (first, last time.Duration, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	const enough = 256 // bytes for two lines
	head := make([]byte, enough)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	line, _, whole := bytes.Cut(head[:n], []byte("\n"))
	if !whole {
		return 0, 0, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	tail := make([]byte, enough)
	n, err = f.ReadAt(tail, max(0, info.Size()-enough))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	tail = tail[:bytes.LastIndexByte(tail[:n], '\n')]
	tail = tail[bytes.LastIndexByte(tail, '\n')+1:]
	if first, err = instant(line); err == nil {
		last, err = instant(tail)
	}
	return first, last, err
}

func instant(line []byte) (time.Duration, error) {
	var token, pid int64
	var at time.Duration
	if _, err := fmt.Sscan(string(line), &token, &pid, (*int64)(&at)); err != nil {
		return 0, fmt.Errorf("mark %q: %w", line, err)
	}
	return at, nil
}

// newest returns the tree that began last, with its marks so far.
func newest(dir string) (tree, bool) {
	all, err := trees(dir)
	if err != nil || len(all) == 0 { // judge reports what cannot be read
		return tree{}, false
	}
	return all[len(all)-1], true
}

// olderLives reports whether a process of a tree but the newest lives.
func olderLives(dir string) bool {
	all, err := trees(dir)
	if err != nil || len(all) == 0 {
		return false
	}
	return slices.ContainsFunc(all[:len(all)-1], func(t tree) bool {
		return slices.ContainsFunc(t.lives, func(l life) bool { return isMark(l, dir) })
	})
}

// judge checks all trees that have marks, and removes those that have ended and are good, but
// not the newest, which it compares with the next one. calm is the end of the last fault of
// the round, 0 if nothing was awaited after it. delay is how much later earlier requests may
// still take effect.
func (w *worker) judge(calm, delay time.Duration) error {
	all, err := trees(w.marks)
	if err != nil {
		return err
	}
	asked, err := w.judgeCalls(all, calm, delay)
	if err != nil {
		return err
	}
	for i, t := range all {
		good := true
		wrong := func(v violation, form string, args ...any) {
			good = w.violated(v, form, args...) && good
		}
		if i > 0 {
			w.found.gaps = append(w.found.gaps, ms(t.first-all[i-1].last))
		}
		for _, older := range all[:i] {
			both := older.last - t.first
			if both > w.ttl { // the bound of every excuse
				delete(w.excuses, overlap)
			}
			if both >= 0 {
				wrong(overlap, "the trees %d and %d both ran for %s", older.token, t.token, both)
				w.found.overlaps = append(w.found.overlaps, ms(both))
			}
		}
		if i == len(all)-1 {
			break
		}
		for _, life := range t.lives {
			if isMark(life, w.marks) {
				wrong(survivor, "process %d (%s) of the tree %d lives on", life.pid, life.kind, t.token)
				_ = syscall.Kill(life.pid, syscall.SIGKILL)
			}
		}
		if until, ranOut := asked.Until(t.token); ranOut && until != 0 {
			w.found.margins = append(w.found.margins, ms(until-t.last))
		}
		if err := w.clear(t, good); err != nil {
			return err
		}
	}
	return nil
}

// clear removes the tree's marks, or keeps them elsewhere if they are evidence.
func (w *worker) clear(t tree, good bool) error {
	for _, life := range t.lives {
		act := func() error { return os.Remove(life.file) }
		if !good {
			act = func() error { return os.Rename(life.file, filepath.Join(w.dir, "proof-"+filepath.Base(life.file))) }
		}
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// isMark reports whether the process of a life still runs. Its id may belong to another
// process by now, even one of a later tree.
func isMark(l life, dir string) bool {
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.pid))
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", l.pid))
	token, _, _ := strings.Cut(filepath.Base(l.file), "-")
	return bytes.Contains(cmdline, []byte(dir)) && bytes.Contains(environ, []byte("LEADERRUN_TOKEN="+token+"\x00")) && script.Lives(l.pid)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
