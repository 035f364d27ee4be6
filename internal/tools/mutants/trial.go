package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// trial says how variants are tested.
type trial struct {
	workers  int
	alone    bool
	survived func(variant) // called at once for each survivor, from several goroutines
	dir      string        // for compiled programs
}

// judge is a test program in which most mistakes can be turned on.
type judge struct {
	name, tests string // of the package; which tests
	dir         string // of the package
	program     string
	limit       time.Duration // several times as long as without a mistake
}

// all tests the variants, several at once, and returns the verdicts in the same order.
func (t trial) all(p *source, variants []variant, names []string) ([]verdict, error) {
	var err error
	if t.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(t.dir)
	overlay, err := t.overlay("all", p.choose(variants))
	if err != nil {
		return nil, err
	}
	var judges []judge
	for i, name := range names {
		j, err := t.compile(name, overlay, fmt.Sprintf("judge%d", i))
		if err != nil {
			return nil, err
		}
		judges = append(judges, j)
	}

	verdicts, errs := make([]verdict, len(variants)), make([]error, len(variants))
	next := make(chan int)
	var done sync.WaitGroup
	for range t.workers {
		done.Go(func() {
			for i := range next {
				if verdicts[i], errs[i] = t.test(variants[i], i+1, judges); verdicts[i] == survived {
					t.survived(variants[i])
				}
			}
		})
	}
	for i := range variants {
		next <- i
	}
	close(next)
	done.Wait()
	return verdicts, errors.Join(errs...)
}

// overlay writes texts that the compiler uses instead of files.
func (t trial) overlay(name string, texts map[string][]byte) (file string, err error) {
	instead := map[string]string{}
	for path, text := range texts {
		instead[path] = filepath.Join(t.dir, fmt.Sprintf("%s.%d.go", name, len(instead)))
		if err := os.WriteFile(instead[path], text, 0o600); err != nil {
			return "", err
		}
	}
	file = filepath.Join(t.dir, name+".json")
	text, err := json.Marshal(map[string]any{"Replace": instead})
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, text, 0o600)
}

// compile compiles the program of a judge, whose tests must pass without a mistake.
func (t trial) compile(name, overlay, program string) (judge, error) {
	j := judge{program: filepath.Join(t.dir, program)}
	j.name, j.tests, _ = strings.Cut(name, ":")
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", j.name).Output()
	if err != nil {
		return j, fmt.Errorf("go list %s: %w", j.name, err)
	}
	j.dir = strings.TrimSpace(string(out))
	if err := j.build(overlay); err != nil {
		return j, fmt.Errorf("%s: %w", name, err)
	}
	const slowest = 10 * time.Minute
	began := time.Now()
	if out, err := t.run(j, 0, slowest); err != nil {
		return j, fmt.Errorf("%s is not green without a mistake: %w\n%s", name, err, out)
	}
	j.limit = 5*time.Since(began) + 10*time.Second
	return j, nil
}

func (j judge) build(overlay string) error {
	out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-o", j.program, j.name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// run runs the tests of a judge with a mistake.
func (t trial) run(j judge, mistake int, limit time.Duration) (out []byte, err error) {
	program := fmt.Sprintf("%s.%d", j.program, mistake)
	if err := os.Link(j.program, program); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(program) }()
	words := []string{program, "-test.failfast", "-test.run", j.tests}
	if t.alone {
		// The shell is process 1 there: some tests do not work as process 1.
		words = append([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", `"$0" "$@"; exit $?`}, words...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = j.dir
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.WaitDelay = time.Second // its children may keep the pipe open
	err = cmd.Run()
	return text.Bytes(), err
}

// test runs the judges on a variant, one after the other, until one kills it.
func (t trial) test(v variant, number int, judges []judge) (verdict, error) {
	if v.broken {
		return broken, nil
	}
	if v.apart {
		overlay, err := t.overlay(fmt.Sprint(number), map[string][]byte{v.path: v.text})
		if err != nil {
			return broken, err
		}
		for i, j := range judges {
			j.program = filepath.Join(t.dir, fmt.Sprintf("%d.%d", number, i))
			if err := j.build(overlay); err != nil {
				return broken, fmt.Errorf("%s: %w", v, err)
			}
			_, err = t.run(j, 0, j.limit)
			_ = os.Remove(j.program)
			if err != nil {
				return verdict(i), nil
			}
		}
		return survived, nil
	}
	for i, j := range judges {
		if _, err := t.run(j, number, j.limit); err != nil {
			return verdict(i), nil
		}
	}
	return survived, nil
}
