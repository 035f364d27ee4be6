// Test formats the output of go test -json for scripts/test: it shows the result of each
// package, all output of failed tests, and which tests were skipped and why. With CI set a
// skipped test is an error.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is a line of the input, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

func main() {
	skipped, ok, err := show(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
	if len(skipped) > 0 {
		fmt.Printf("left out:\n%s", strings.Join(skipped, ""))
	}
	if !ok || len(skipped) > 0 && os.Getenv("CI") != "" {
		os.Exit(1)
	}
}

func show(in io.Reader, out io.Writer) (skipped []string, ok bool, err error) {
	said := map[[2]string]string{} // by package and test
	ok = true
	for lines := json.NewDecoder(in); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return skipped, ok, nil
		} else if err != nil {
			return nil, false, err
		}
		key := [2]string{e.Package, e.Test}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				said[key] += e.Output
			}
			continue
		case e.Action == "fail":
			ok = false
			fmt.Fprint(out, said[key])
		case e.Action == "skip" && e.Test != "" && !strings.HasPrefix(e.Test, "Fuzz"): // a fuzz target skips inputs that do not concern it
			skipped = append(skipped, fmt.Sprintf("%s %s\n%s", e.Package, e.Test, said[key]))
		case e.Action == "pass" && e.Test == "": // go test's own last line of a package
			lines := strings.SplitAfter(strings.TrimSuffix(said[key], "\n"), "\n")
			fmt.Fprintln(out, lines[len(lines)-1])
		}
		if e.Action == "fail" || e.Action == "skip" || e.Action == "pass" {
			delete(said, key)
		}
	}
}
