//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

func drawing(t *testing.T, of world) *worker {
	t.Helper()
	kinds, err := kindsLike("", of, true)
	must.Succeed(t, err)
	return &worker{options: options{world: of, seed: 7, ttl: 3 * time.Second, kinds: kinds}, found: newStats()}
}

// The seed and the number of a round decide its faults. Every fault of a store occurs, and no
// two that would undo each other occur together.
func TestDraw(t *testing.T) {
	for _, of := range worlds {
		w, store := drawing(t, of), of.name
		seen := map[string]bool{}
		for round := range 2000 {
			faults, newcomers := w.draw(round)
			again, newcomersAgain := w.draw(round)
			for i, f := range faults {
				seen[f.name] = true
				if again[i].String() != f.String() {
					t.Errorf("%s, round %d: %s, then %s", store, round, f, again[i])
				}
			}
			if !reflect.DeepEqual(newcomers, newcomersAgain) {
				t.Errorf("%s, round %d: newcomers %v, then %v", store, round, newcomers, newcomersAgain)
			}
			if len(faults) > 2 || len(faults) == 2 && (faults[0].on == faults[1].on || faults[0].dark && faults[1].dark) {
				t.Errorf("%s, round %d: %v", store, round, faults)
			}
		}
		for _, k := range w.kinds {
			if !seen[k.name] {
				t.Errorf("%s: %s never came", store, k.name)
			}
		}
	}
}

// Two trees are excused only if the leader was also out of reach, or its server came back
// before it was replaced. Nothing excuses a survivor, or a round after which nobody led.
func TestExcuses(t *testing.T) {
	for _, of := range worlds {
		w, store := drawing(t, of), of.name
		for round := range 2000 {
			faults, _ := w.draw(round)
			w.expect(faults)
			replaced := slices.ContainsFunc(faults, func(f fault) bool { return f.twoServers }) && slices.Contains(of.has, replicas)
			silent := replaced || slices.ContainsFunc(faults, func(f fault) bool { return f.silences })
			if w.excuses[overlap] != "" && !silent {
				t.Errorf("%s: two trees are excused by %v", store, faults)
			}
			if by := w.excuses[stale]; by != "" && !replaced {
				t.Errorf("%s: renewals of a lease that was over are excused by %s", store, by)
			}
			for _, v := range []violation{survivor, unled, stopped, disorder, early, late, twice, nobody, starved} {
				if by := w.excuses[v]; by != "" {
					t.Errorf("%s: %s are excused by %s", store, v, by)
				}
			}
		}
	}
}

// noServer does nothing.
type noServer struct{ backend }

func (noServer) setClock(time.Duration) {}
func (noServer) kill()                  {}
func (noServer) start()                 {}
func (noServer) freeze()                {}
func (noServer) cont()                  {}

// A clock that is set back excuses smaller tokens only if their counter was lost before.
func TestStepBackExcusesWhatWasLost(t *testing.T) {
	w := &worker{marks: t.TempDir(), server: noServer{}}
	back := func() {
		stepClock(-1)(t.Context(), w, fault{amount: time.Minute})
	}
	if back(); len(w.lost) != 0 || w.back.By != time.Minute {
		t.Errorf("nothing was lost, and %v are excused; set back by %s", w.lost, w.back.By)
	}
	w.losing()(func() {})
	if back(); len(w.lost) != 1 || len(w.losses) != 0 {
		t.Errorf("after one loss %v are excused, %v are left", w.lost, w.losses)
	}
}

// A server that may be replaced while it is down may lose data from then on, and smaller tokens
// are excused if the counter was ahead of the clock at that time.
func TestReplicaMayLackTheNewest(t *testing.T) {
	const tokens = 20 // milliseconds that the newest token is ahead of the clock when the server fails
	for _, c := range []struct {
		of           world
		fault        injector
		before       int64
		forgot, lost int
	}{
		{redisWorld, killStore, tokens, 0, 0},
		{sentinelWorld, killStore, tokens, 1, 1},
		{sentinelWorld, stopStore, tokens, 1, 1},
		{sentinelWorld, stopStore, -tokens, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{options: options{world: c.of}, marks: t.TempDir(), server: noServer{}}
			mark := func(ahead int64) {
				token := time.Now().UnixMilli() + ahead
				text := fmt.Sprintf("%d 1 %d\n", token, clock())
				must.Succeed(t, os.WriteFile(filepath.Join(w.marks, fmt.Sprintf("%d-0-plain-1", token)), []byte(text), 0o600))
			}
			mark(c.before)
			begin := clock()
			undo := c.fault(t.Context(), w, fault{})
			began := clock()
			time.Sleep(2 * tokens * time.Millisecond)
			mark(0) // by the server that replaced it
			end := clock()
			undo()
			if len(w.forgot) != c.forgot || len(w.losses) != c.forgot || len(w.lost) != c.lost {
				t.Errorf("%s: forgot %v, losses %v, lost %v", c.of.name, w.forgot, w.losses, w.lost)
			}
			for _, s := range w.forgot {
				if s.From < begin || s.From > began || s.To < end {
					t.Errorf("%s: forgot in %v, want from before %s until after %s", c.of.name, s, began, end)
				}
			}
		})
	}
}

func TestFaultsByName(t *testing.T) {
	for _, c := range []struct {
		expression string
		of         world
		hosts      bool
		want       []string
	}{
		{"store-(full|lag)", redisWorld, true, []string{"store-full"}},
		{"store-(full|lag)", sentinelWorld, true, []string{"store-lag"}},
		{"store-dark-.*|net-reset", redisWorld, false, []string{"net-reset"}},
		{"store", redisWorld, true, nil},
		{"(", redisWorld, true, nil},
	} {
		kinds, err := kindsLike(c.expression, c.of, c.hosts)
		var got []string
		for _, k := range kinds {
			got = append(got, k.name)
		}
		if !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%s of %s: %v, %v", c.expression, c.of.name, got, err)
		}
	}
}
