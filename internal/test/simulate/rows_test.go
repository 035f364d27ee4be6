package simulate

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
)

var showRows = flag.Bool("rows", false, "at the end, show which rows of docs/design/state-machine.md no schedule took, and which steps are not in it")

// rows counts how often schedules took each step of the state machine.
type rows map[string]int

// takenRows has the steps of all schedules of this process. Schedules run one at a time.
var takenRows = rows{}

var (
	signalled = regexp.MustCompile(`(order|pass on|signal|signal rest) [0-9]+`)
	ended     = regexp.MustCompile(`(command ended|tree gone) [0-9]+`)
)

// rowOf returns a step without the number of its signal, and with 0 or 1 as the exit status.
func rowOf(step string) string {
	step = signalled.ReplaceAllString(step, "$1")
	return strings.TrimSpace(ended.ReplaceAllStringFunc(step, func(s string) string {
		name, status := s[:strings.LastIndexByte(s, ' ')], s[strings.LastIndexByte(s, ' ')+1:]
		if status != "0" {
			status = "1"
		}
		return name + " " + status
	}))
}

func (r rows) add(t campaign.Transition) { r[rowOf(elect.Line(t.From, t.Event, t.To, t.Actions))]++ }

// documented returns the rows of docs/design/state-machine.md, in the form of rowOf.
func documented() ([]string, error) {
	page, err := os.ReadFile("../../../docs/design/state-machine.md")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(page), "```text\n")
	table, _, found := strings.Cut(rest, "```")
	if !found {
		return nil, fmt.Errorf("docs/design/state-machine.md has no table")
	}
	var all []string
	for line := range strings.Lines(table) {
		all = append(all, rowOf(line))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// pairsOf are the states and events of rows.
func pairsOf(rows []string) map[string]bool {
	pairs := map[string]bool{}
	for _, row := range rows {
		parts := strings.SplitN(row, " | ", 3)
		pairs[parts[0]+" | "+parts[1]] = true
	}
	return pairs
}

// show says how much of the table was taken; and with the flag which rows were not, and
// which steps are in no row.
func (r rows) show() error {
	all, err := documented()
	if err != nil {
		return err
	}
	var took, never, others []string
	for _, row := range all {
		if r[row] > 0 {
			took = append(took, row)
		} else {
			never = append(never, row)
		}
	}
	fmt.Printf("%d of %d rows of docs/design/state-machine.md were taken, with %d of %d pairs of a state and an event\n",
		len(took), len(all), len(pairsOf(took)), len(pairsOf(all)))
	if !*showRows {
		return nil
	}
	for row, n := range r {
		if _, found := slices.BinarySearch(all, row); !found {
			others = append(others, fmt.Sprintf("%s (%d)", row, n))
		}
	}
	slices.Sort(others)
	fmt.Printf("Never:\n  %s\n%d steps that were taken are in no row:\n  %s\n", strings.Join(never, "\n  "), len(others), strings.Join(others, "\n  "))
	return nil
}

// A step is in the same row whatever the signal was, and with whichever failure the command
// ended.
func TestRowOf(t *testing.T) {
	for step, want := range map[string]string{
		"Leading | order 15 | Stopping(ordered) | signal 15":                       "Leading | order | Stopping(ordered) | signal",
		"Leading | terminal's pass on 3 | Leading | ":                              "Leading | terminal's pass on | Leading |",
		"Leading | tree gone 3 | Releasing(exited) | release":                      "Leading | tree gone 1 | Releasing(exited) | release",
		"Stopping(ordered) | command ended 0 | Stopping(ordered) | signal rest 15": "Stopping(ordered) | command ended 0 | Stopping(ordered) | signal rest",
		"Standby(denied) | woke | Campaigning(denied) | acquire":                   "Standby(denied) | woke | Campaigning(denied) | acquire",
	} {
		if got := rowOf(step); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	all, err := documented()
	if err != nil || len(all) < 100 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}
