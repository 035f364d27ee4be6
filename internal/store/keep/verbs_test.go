package keep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// A host is recorded after the answer is known: an error there does not change the answer, and
// delays it by a bounded time. A standby that is denied gives its connection back.
func TestNoteThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newSettled()
		r := candidate("web-1")
		r.Period = time.Hour
		granted(t, m.open(), r)
		s, calls, yields := m.open(), 0, 0
		s.Yield = func() { yields++ }
		s.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
			if calls++; calls == 1 {
				return call(ctx, m)
			}
			<-ctx.Done()
			return &lease.StoreError{Err: ctx.Err()}
		}
		began := time.Now()
		r.Holder = lease.NewHolder("web-2", 1)
		_, err := s.Acquire(t.Context(), r)
		if took := time.Since(began); !errors.As(err, new(*lease.HeldError)) || calls != 2 || took != 300*time.Millisecond || yields != 1 {
			t.Errorf("after %d calls and %s: %v; %d yields", calls, took, err, yields)
		}
	})
}

func TestNoHolder(t *testing.T) {
	if _, err := newMemory().open().Acquire(t.Context(), lease.Request{Key: "k", Holder: "somebody", TTL: time.Minute}); !isPermanent(err) {
		t.Error(err)
	}
}

// Names that are no keys are not listed.
func TestNamesOfOthers(t *testing.T) {
	m := newMemory()
	for _, name := range []string{"z", "", "b", "no key", "a"} {
		m.rows[name] = nil
	}
	if keys, err := m.open().Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"a", "b", "z"}) {
		t.Errorf("%q, %v", keys, err)
	}
}

// Wait returns the error of Hear. If that is permanent there are no wake-ups: the next acquire
// reports it. Once the time is over there is none.
func TestWaitFails(t *testing.T) {
	s := newMemory().open()
	for _, permanent := range []bool{false, true} {
		s.Hear = func(context.Context, Bell, string, func(Row) bool) error {
			return &lease.StoreError{Op: "wait", Err: errLost, Permanent: permanent}
		}
		err := s.Wait(t.Context(), "k", time.Hour)
		if permanent != errors.Is(err, lease.ErrNoWakeups) || permanent == errors.Is(err, errLost) {
			t.Errorf("permanent %t: %v", permanent, err)
		}
		if err := s.Wait(t.Context(), "k", 0); err != nil {
			t.Errorf("at the end: %v", err)
		}
	}
}

// The message says what an error means for the table, and then has the server's own words.
func TestErrorsOfATable(t *testing.T) {
	hints := Hints{Table: "make the table", Shape: "it is another version's", NotSaved: "look for a trigger"}
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		err        error
		text, hint string
	}{
		"another shape": {ErrShape, ErrShape.Error(), hints.Shape},
		"not saved":     {ErrNotSaved, "its table leaderrun_leases does not take what is written to it", hints.NotSaved},
		"not trusted":   {&Untrusted{"row k", denied}, "row k cannot be trusted: denied", "delete that row once no command of this key runs"},
	} {
		if got := hints.Known(c.err); got == nil || *got != (network.Known{Text: c.text, Hint: c.hint, Permanent: true}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := hints.Known(denied); got != nil {
		t.Errorf("the server's own error: %+v", got)
	}
	for name, c := range map[string]struct {
		err            error
		hint           string
		permanent      bool
		want, wantHint string
	}{
		"nothing to add":          {denied, "ask", true, "denied", "ask"},
		"another shape":           {denied, hints.Shape, true, ErrShape.Error() + ": denied", hints.Shape},
		"no table, for good":      {&NoTable{denied}, "ask", true, "the table leaderrun_leases is missing, and denied", hints.Table},
		"no table, for now":       {&NoTable{denied}, "ask", false, "the table leaderrun_leases is missing, and denied", "ask"},
		"refused again and again": {errors.Join(&Refused{denied}, ErrNotSaved), "ask", false, fmt.Sprintf("%d changes in a row were refused because of others: denied", refusals), "ask"},
	} {
		said := network.Known{Text: "denied", Hint: c.hint, Permanent: c.permanent}
		if hints.Complete(&said, c.err); said.Text != c.want || said.Hint != c.wantHint {
			t.Errorf("%s: %+v", name, said)
		}
	}
}
