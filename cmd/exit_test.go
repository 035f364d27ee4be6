package cmd

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func result(outcome candidate.Outcome, with ...func(*elect.State)) elect.State {
	r := elect.State{Outcome: outcome}
	for _, f := range with {
		f(&r)
	}
	return r
}

func exited(code, signal int) func(*elect.State) {
	return func(r *elect.State) { r.Ran, r.Exit = true, candidate.Exit{Code: code, Signal: signal} }
}

func failed(err error) func(*elect.State) {
	return func(r *elect.State) { r.Err = err }
}

func orderedBy(signal int) func(*elect.State) {
	return func(r *elect.State) { r.Orders = elect.Orders{Count: 1, Signal: signal} }
}

// exitTable is the contract, outcome by outcome.
var exitTable = []struct {
	result elect.State
	set    string // settings that matter: "name=value name=value"
	want   int
}{
	{result(candidate.Exited, exited(0, 0)), "", 0},
	{result(candidate.Exited, exited(3, 0)), "", 3},
	{result(candidate.Exited, exited(255, 0)), "", 255},
	{result(candidate.Exited, exited(76, 0)), "", 76},
	{result(candidate.Exited, exited(0, 11)), "", 139},
	{result(candidate.Exited, exited(3, 0)), "skip-exit-code=9 wait=5s", 3},
	{result(candidate.LeftBehind, exited(4, 0)), "", 4},
	{result(candidate.Detached, exited(5, 0)), "", 5},

	{result(candidate.Ordered, exited(0, 15), orderedBy(15)), "", 143},
	{result(candidate.Ordered, exited(0, 9), orderedBy(15)), "", 137},
	{result(candidate.Ordered, exited(0, 0), orderedBy(15)), "", 0},
	{result(candidate.Ordered, exited(7, 0), orderedBy(2)), "", 7},
	{result(candidate.Ordered, orderedBy(15)), "", 143},
	{result(candidate.HandedOver, exited(0, 15)), "", 143},
	{result(candidate.Unfit, exited(7, 0)), "", 7},
	{result(candidate.Ordered, orderedBy(2)), "skip-exit-code=9 wait=forever", 130},

	{result(candidate.Denied), "", 0},
	{result(candidate.Denied), "skip-exit-code=75", 75},
	{result(candidate.Denied), "wait=2s", 75},
	{result(candidate.Denied), "wait=2s skip-exit-code=0", 0},
	{result(candidate.Denied), "wait=2s skip-exit-code=9", 9},
	{result(candidate.Paused), "", 0},
	{result(candidate.Paused), "wait=2s", 0},
	{result(candidate.Paused), "skip-exit-code=9", 9},
	{result(candidate.Ineligible), "", 0},
	{result(candidate.Ineligible), "wait=2s", 75},
	{result(candidate.Ineligible), "wait=2s skip-exit-code=9", 9},
	{result(candidate.Ineligible), "once-per=1h wait=2s", 0},
	{result(candidate.Unchecked), "skip-exit-code=9", 125},
	{result(candidate.Unchecked), "once-per=1h wait=2s", 125},
	{result(candidate.Skipped), "", 0},
	{result(candidate.Skipped), "skip-exit-code=9", 9},
	{result(candidate.Skipped), "wait=1h", 0},

	{result(candidate.Unavailable), "", 69},
	{result(candidate.Unavailable), "skip-exit-code=9 wait=5s", 69},

	{result(candidate.Lost, exited(0, 0)), "", 76},
	{result(candidate.Lost, exited(3, 0), orderedBy(15)), "skip-exit-code=9", 76},
	{result(candidate.Lost), "", 76},
	{result(candidate.Expired, exited(0, 9)), "", 76},
	{result(candidate.Expired), "skip-exit-code=9", 76},

	{result(candidate.MaxRuntime, exited(0, 15)), "", 124},
	{result(candidate.MaxRuntime, exited(0, 0)), "", 124},

	{result(candidate.NotStarted, failed(&fs.PathError{Op: "exec", Path: "x", Err: syscall.ENOENT})), "", 127},
	{result(candidate.NotStarted, failed(fmt.Errorf("start: %w", fs.ErrNotExist))), "", 127},
	{result(candidate.NotStarted, failed(syscall.ENOTDIR)), "", 127},
	{result(candidate.NotStarted, failed(syscall.EACCES)), "", 126},
	{result(candidate.NotStarted, failed(syscall.EPERM)), "", 126},
	{result(candidate.NotStarted, failed(syscall.ENOEXEC)), "", 126},
	{result(candidate.NotStarted, failed(syscall.EISDIR)), "", 126},
	{result(candidate.NotStarted, failed(syscall.EAGAIN)), "skip-exit-code=9", 125},
	{result(candidate.NotStarted, failed(errors.New("start the guard process"))), "", 125},
	{result(candidate.NotStarted), "", 125},
	{result(candidate.GuardDied, failed(errors.New("killed"))), "", 125},
}

func TestStatus(t *testing.T) {
	for _, tt := range exitTable {
		if got := runStatus(tt.result, configured(t, tt.set)); got != tt.want {
			t.Errorf("%s, %+v, %v with %q: status %d, want %d", tt.result.Outcome, tt.result.Exit, tt.result.Err, tt.set, got, tt.want)
		}
	}
}

func configured(t *testing.T, given string) settings.Config {
	t.Helper()
	c := settings.Default()
	for setting := range strings.FieldsSeq("key=k " + given) {
		name, value, _ := strings.Cut(setting, "=")
		must.Succeed(t, c.Set(name, value))
	}
	c.Command = []string{"job"}
	must.Succeed(t, c.Validate())
	return c
}

// A new outcome needs a row in exitTable and a case in runStatus.
func TestEveryOutcomeHasAStatus(t *testing.T) {
	for _, value := range constants(t, "../internal/candidate/candidate.go", func(spec *ast.ValueSpec) bool {
		name, ok := spec.Type.(*ast.Ident)
		return ok && name.Name == "Outcome"
	}) {
		outcome, err := strconv.Unquote(value)
		must.Succeed(t, err)
		if !slices.ContainsFunc(exitTable, func(row struct {
			result elect.State
			set    string
			want   int
		}) bool {
			return row.result.Outcome == candidate.Outcome(outcome)
		}) {
			t.Errorf("outcome %q has no row", outcome)
		}
	}
}

// The help lists exactly leaderrun's own statuses.
func TestHelpListsTheStatuses(t *testing.T) {
	own := constants(t, "exit.go", func(spec *ast.ValueSpec) bool {
		return strings.HasPrefix(spec.Names[0].Name, "exit")
	})
	_, section, _ := strings.Cut(fullHelp(), "Exit status")
	section, _, _ = strings.Cut(section, "Environment")
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^  (\d+)  `).FindAllStringSubmatch(section, -1) {
		listed = append(listed, row[1])
	}
	if want := append([]string{strconv.Itoa(settings.Default().SkipExitCode)}, own...); !slices.Equal(listed, want) {
		t.Errorf("the help lists %q, the table has %q", listed, want)
	}
	if !strings.Contains(section, "128+n") {
		t.Error("the help does not explain signals")
	}
}

// constants returns the values of the constants in a source file for which meant is true.
func constants(t *testing.T, file string, meant func(*ast.ValueSpec) bool) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	must.Succeed(t, err)
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 && meant(spec) {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				values = append(values, value.Value)
			}
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("no constants found in %s", file)
	}
	return values
}

// leaderrun dies as its command died, if that is not leaderrun's own status.
func TestDiesOf(t *testing.T) {
	for _, tt := range []struct {
		result elect.State
		want   syscall.Signal
	}{
		{result(candidate.Exited, exited(0, 2)), syscall.SIGINT},
		{result(candidate.Exited, exited(130, 0)), 0},
		{result(candidate.Exited, exited(0, 9)), 0},
		{result(candidate.Exited, exited(0, 11)), 0},
		{result(candidate.LeftBehind, exited(0, 1)), syscall.SIGHUP},
		{result(candidate.Ordered, exited(0, 15), orderedBy(2)), syscall.SIGTERM},
		{result(candidate.Ordered, exited(0, 0), orderedBy(15)), 0},
		{result(candidate.Ordered, orderedBy(15)), syscall.SIGTERM},
		{result(candidate.HandedOver, exited(0, 15)), syscall.SIGTERM},
		{result(candidate.Unfit, exited(0, 15)), syscall.SIGTERM},
		{result(candidate.Expired, exited(0, 15)), 0},
		{result(candidate.MaxRuntime, exited(0, 15)), 0},
	} {
		if got := diesOf(tt.result); got != tt.want {
			t.Errorf("%s, %+v: dies of %v, want %v", tt.result.Outcome, tt.result.Exit, got, tt.want)
		}
	}
}
