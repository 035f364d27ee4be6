package candidate

import (
	"slices"
	"testing"
)

// What each phase is: a candidate waits until it is granted the key or ends; then it has a tree.
func TestPhases(t *testing.T) {
	in := func(phases ...Phase) func(Phase) bool {
		return func(p Phase) bool { return slices.Contains(phases, p) }
	}
	for name, what := range map[string]struct{ got, want func(Phase) bool }{
		"waiting": {Phase.Waiting, in(Campaigning, Standby, Checking)},
		"running": {Phase.Running, in(Starting, Leading, Doubtful)},
		"tree":    {Phase.HasTree, in(Starting, Leading, Doubtful, Stopping, Killing)},
	} {
		for phase := Campaigning; phase <= Done; phase++ {
			if what.got(phase) != what.want(phase) {
				t.Errorf("%s, %s: %t", phase, name, what.got(phase))
			}
		}
	}
}
