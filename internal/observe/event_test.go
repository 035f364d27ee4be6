package observe

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// docs/settings.md explains exactly these events.
func TestEventsAreDocumented(t *testing.T) {
	page := must.Read(t, "../../docs/settings.md")
	_, section, _ := strings.Cut(page, "| event | level |")
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			explained = append(explained, strings.Trim(name, "`"))
		}
	}
	want := slices.Clone(events)
	for _, why := range []candidate.Outcome{candidate.Denied, candidate.Skipped, candidate.Paused, candidate.Ineligible, candidate.Unchecked,
		candidate.Unavailable, candidate.NotStarted, candidate.GuardDied, candidate.MaxRuntime} {
		want = append(want, EventOf(why).Value.String())
	}
	slices.Sort(want)
	slices.Sort(explained)
	if !slices.Equal(explained, want) {
		t.Errorf("the page explains %q, the events are %q", explained, want)
	}
}

// The first attribute of every record is its event.
func TestRecordsHaveEvents(t *testing.T) {
	calls := 0
	for _, dir := range []string{".", "../run", "../../cmd"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		must.Succeed(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := gotoken.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			must.Succeed(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || message(call) < 0 {
					return true
				}
				calls++
				if first := message(call) + 1; len(call.Args) <= first || !aboutEvent(call.Args[first]) {
					t.Errorf("%s: a record without an event", set.Position(call.Pos()))
				}
				return true
			})
		}
	}
	if calls < 30 {
		t.Errorf("only %d calls were found", calls)
	}
}

// message returns the index of the message in a log call, or -1 if it is no log call.
func message(call *ast.CallExpr) int {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return -1
	}
	switch logger := method.X.(type) {
	case *ast.Ident:
		ok = logger.Name == "log"
	case *ast.SelectorExpr:
		ok = logger.Sel.Name == "log"
	}
	switch {
	case !ok:
		return -1
	case method.Sel.Name == "Log":
		return 2
	case slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name):
		return 0
	}
	return -1
}

// aboutEvent reports whether an argument is an event or starts with one: EventLost,
// observe.EventLost, about(observe.EventLost, err), attrs.
func aboutEvent(arg ast.Expr) bool {
	switch x := arg.(type) {
	case *ast.Ident:
		return strings.HasPrefix(x.Name, "Event") || x.Name == "attrs"
	case *ast.SelectorExpr:
		return strings.HasPrefix(x.Sel.Name, "Event")
	case *ast.CallExpr:
		return aboutEvent(x.Fun) || len(x.Args) > 0 && aboutEvent(x.Args[0])
	}
	return false
}

// The events that whole runs log, in order.
func TestEventsOfRuns(t *testing.T) {
	answer := elect.Event{Kind: elect.NoAnswer}
	at := func(e elect.Event, second int) elect.Event {
		e.At = time.Duration(second) * time.Second
		e.Sent = e.At
		return e
	}
	unfit, fit := elect.Event{Kind: elect.MayNotLead}, elect.Event{Kind: elect.MayLead}
	renewed := func(second int) []elect.Event {
		return []elect.Event{at(elect.Event{Kind: elect.Timer}, second), at(elect.Event{Kind: elect.Renewed}, second)}
	}
	offers := func(more ...elect.Event) []elect.Event {
		return led(slices.Concat([]elect.Event{at(unfit, 12)}, renewed(21), renewed(31), renewed(41), []elect.Event{at(unfit, 43)}, more)...)
	}
	tests := map[string]struct {
		events []elect.Event
		want   string
	}{
		"unfit": {offers(at(unfit, 44), at(fit, 45)), "acquired started renewed renewed renewed renewed ineligible recovered"},
		"unfit, and its offer was taken": {offers(at(elect.Event{Kind: elect.Order, Signal: 15}, 44), at(fit, 45)),
			"acquired started renewed renewed renewed renewed ineligible stopping"},
		"success":  {led(ended(12*time.Second, 3)...), "acquired started renewed ended released"},
		"denied":   {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held}}}, "standing-by"},
		"takeover": {append([]elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held}}, {Kind: elect.Woke}}, led()[1:]...), "standing-by acquired started renewed"},
		"outage": {led(at(elect.Event{Kind: elect.Timer}, 21), at(answer, 22), at(answer, 23), at(elect.Event{Kind: elect.Renewed}, 24)),
			"acquired started renewed renewal-failed renewal-failed recovered"},
		"lost":    {led(append([]elect.Event{at(elect.Event{Kind: elect.LeaseLost}, 12)}, ended(12*time.Second, 0)...)...), "acquired started renewed lost ended released"},
		"expired": {led(at(elect.Event{Kind: elect.Timer}, 40)), "acquired started renewed expired"},
		"ordered": {led(at(elect.Event{Kind: elect.Order, Signal: 15}, 12), at(elect.Event{Kind: elect.Timer}, 22)), "acquired started renewed stopping killing"},
	}
	for name, test := range tests {
		var out strings.Builder
		set := usual
		set.Wait = time.Hour
		observe(NewRun(NewLogger(&out, slog.LevelInfo, Form{JSON: true}), true), set, test.events...)
		var got []string
		for d := json.NewDecoder(strings.NewReader(out.String())); d.More(); {
			var record struct{ Event string }
			must.Succeed(t, d.Decode(&record))
			got = append(got, record.Event)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
