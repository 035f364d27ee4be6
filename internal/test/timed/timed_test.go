package timed

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

var terms = Terms{TTL: time.Second, Period: 10 * time.Second, Round: 5000, Late: 100 * ms}

func call(who int, verb Verb, sent, done time.Duration, a Answer) Call {
	return Call{Who: who, Verb: verb, Sent: sent, Done: done, Answer: a}
}

func grant(who int, sent, done time.Duration, token int64) Call {
	c := call(who, Acquire, sent, done, Granted)
	c.Token = token
	return c
}

func tick(c Call, at int64) Call { c.Tick = at; return c }
func success(c Call) Call        { c.Success = true; return c }

func at(t time.Duration) Span { return Span{t, t} }

// Each rule can be broken, and is not broken by less.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		calls []Call
		runs  []Run
		calm  time.Duration
		lost  Span // when the store lost its data
		back  Step
		want  []Rule
	}{
		"nothing":              {},
		"one after the other":  {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Release, 500*ms, 510*ms, Yes), grant(2, 505*ms, 520*ms, 2)}},
		"after the end":        {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 990*ms, 1010*ms, 2)}},
		"while it lives":       {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 900*ms, 950*ms, 2)}, want: []Rule{Early}},
		"while it may be over": {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 900*ms, 990*ms, 2)}},
		"while it is renewed": {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 800*ms, 810*ms, Yes), grant(2, 1200*ms, 1210*ms, 2)},
			want: []Rule{Early}},
		"while it lives, but the store has lost it":        {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 900*ms, 950*ms, 2)}, lost: at(5 * ms)},
		"while it lives, put back after the store lost it": {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 100*ms, 110*ms, PutBack), grant(2, 900*ms, 950*ms, 2)}, lost: at(50 * ms), want: []Rule{Early}},
		"while it lives, before the store lost it":         {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 200*ms, 210*ms, 2)}, lost: Span{210 * ms, time.Second}, want: []Rule{Early}},
		"while it lives, and the store is losing it":       {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 200*ms, 210*ms, 2)}, lost: Span{209 * ms, time.Second}},
		"while it lives, granted as the store loses data":  {calls: []Call{grant(1, 100*ms, 110*ms, 1), grant(2, 200*ms, 210*ms, 2)}, lost: Span{0, 101 * ms}},
		"while it lives, granted after that":               {calls: []Call{grant(1, 100*ms, 110*ms, 1), grant(2, 200*ms, 210*ms, 2)}, lost: Span{0, 100 * ms}, want: []Rule{Early}},
		"while it may have been released":                  {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Release, 100*ms, 0, None), grant(2, 200*ms, 210*ms, 2)}},
		"a renewal after another grant": {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 1100*ms, 1110*ms, 2), call(1, Renew, 1200*ms, 1210*ms, PutBack)},
			want: []Rule{Stale}},
		"a renewal beside another grant":             {calls: []Call{grant(1, 0, 10*ms, 1), grant(2, 1100*ms, 1210*ms, 2), call(1, Renew, 1200*ms, 1220*ms, PutBack)}},
		"a renewal of what was over":                 {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 1100*ms, 1110*ms, Yes)}, want: []Rule{Stale}},
		"and put back":                               {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 1100*ms, 1110*ms, PutBack)}},
		"and perhaps renewed":                        {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 500*ms, 0, None), call(1, Renew, 1100*ms, 1110*ms, Yes)}},
		"a smaller token":                            {calls: []Call{grant(1, 0, 10*ms, 2), grant(2, 1100*ms, 1110*ms, 1)}, want: []Rule{Order}},
		"the same token":                             {calls: []Call{grant(1, 0, 10*ms, 1), grant(1, 1100*ms, 1110*ms, 1)}, want: []Rule{Order}},
		"a smaller token of a lost counter":          {calls: []Call{grant(1, 0, 10*ms, 2), grant(2, 1100*ms, 1110*ms, 1)}, lost: at(time.Second)},
		"and one before that":                        {calls: []Call{grant(1, 0, 10*ms, 2), grant(2, 1100*ms, 1110*ms, 1)}, lost: at(2 * time.Second), want: []Rule{Order}},
		"a tick whose success is forgotten":          {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), tick(grant(2, 120*ms, 130*ms, 2), 1120)}, lost: at(115 * ms)},
		"a tick before its success is forgotten":     {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), tick(grant(2, 120*ms, 130*ms, 2), 1120)}, lost: at(time.Second), want: []Rule{Twice}},
		"a tick from before the clock was set":       {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), tick(grant(2, 120*ms, 130*ms, 2), 1120)}, lost: at(50 * ms)},
		"tokens of calls beside each other":          {calls: []Call{grant(1, 0, 2000*ms, 2), grant(2, 1100*ms, 1110*ms, 1)}},
		"a run that dies in time":                    {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 500*ms, 510*ms, Yes)}, runs: []Run{{1, 1499 * ms}}},
		"a run that outlives its lease":              {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 500*ms, 600*ms, Yes)}, runs: []Run{{1, 1500 * ms}}, want: []Rule{Outlive}},
		"a run whose renewal has no answer":          {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 500*ms, 0, None)}, runs: []Run{{1, 1000 * ms}}, want: []Rule{Outlive}},
		"a tick after its success":                   {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), tick(grant(2, 120*ms, 130*ms, 2), 1120)}, want: []Rule{Twice}},
		"the next tick":                              {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), tick(grant(2, 6*time.Second, 6010*ms, 2), 7000)}},
		"a tick after a failure":                     {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), call(1, Release, 100*ms, 110*ms, Yes), tick(grant(2, 120*ms, 130*ms, 2), 1120)}},
		"a tick that nobody has served":              {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), call(1, Release, 100*ms, 110*ms, Yes), call(2, Acquire, 120*ms, 130*ms, Served)}, want: []Rule{Nobody}},
		"a tick that may have been served":           {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 0, None)), call(2, Acquire, 120*ms, 130*ms, Served)}},
		"a tick served long ago":                     {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), call(2, Acquire, 21*time.Second, 21010*ms, Served)}, want: []Rule{Nobody}},
		"and the store has lost its ticks since":     {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), call(2, Acquire, 21*time.Second, 21010*ms, Served)}, lost: at(115 * ms), want: []Rule{Nobody}},
		"and before the clock was set back":          {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), call(2, Acquire, 21*time.Second, 21010*ms, Served)}, back: Step{115 * ms, time.Second}},
		"and before it was set back by less":         {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), call(2, Acquire, 21*time.Second, 21010*ms, Served)}, back: Step{115 * ms, 900 * ms}, want: []Rule{Nobody}},
		"and after it was set back":                  {calls: []Call{tick(grant(1, 0, 10*ms, 1), 1000), success(call(1, Release, 100*ms, 110*ms, Yes)), call(2, Acquire, 21*time.Second, 21010*ms, Served)}, back: Step{90 * ms, time.Second}, want: []Rule{Nobody}},
		"denied by a living lease":                   {calls: []Call{grant(1, 0, 10*ms, 1), call(2, Acquire, 1010*ms, 1020*ms, Held)}, calm: ms},
		"denied by nobody":                           {calls: []Call{grant(1, 0, 10*ms, 1), call(2, Acquire, 1030*ms, 1040*ms, Held)}, calm: ms, want: []Rule{Starve}},
		"denied after a release":                     {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Release, 100*ms, 110*ms, Yes), call(2, Acquire, 200*ms, 210*ms, Held)}, calm: ms, want: []Rule{Starve}},
		"denied by what may have been renewed":       {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 900*ms, 0, None), call(2, Acquire, 1900*ms, 1910*ms, Held)}, calm: ms},
		"denied long after what may be renewed late": {calls: []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 900*ms, 0, None), call(2, Acquire, 2200*ms, 2210*ms, Held)}, calm: ms, want: []Rule{Starve}},
		"denied by nobody, in a fault":               {calls: []Call{grant(1, 0, 10*ms, 1), call(2, Acquire, 1030*ms, 1040*ms, Held)}, calm: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			these := terms
			these.Calm, these.Back = c.calm, c.back
			if c.lost != (Span{}) {
				these.Forgot = []Span{c.lost, at(time.Hour)}
				these.Lost = these.Forgot
			}
			var got []Rule
			wrongs := New(these, c.calls).Judge(c.runs)
			for _, w := range wrongs {
				got = append(got, w.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", wrongs, c.want)
			}
		})
	}
}

// A call that was judged is not judged again, when the calls that explain it may be gone.
func TestFrom(t *testing.T) {
	these := terms
	these.Calm, these.From = ms, 4*time.Second
	calls := []Call{call(2, Acquire, 3*time.Second, 3010*ms, Held), call(3, Acquire, 3*time.Second, 3010*ms, Served), grant(1, 3*time.Second, 3010*ms, 5), grant(3, 3500*ms, 3510*ms, 4)}
	if wrong := New(these, calls).Judge(nil); wrong != nil {
		t.Error(wrong)
	}
}

// A lease that was released, or never renewed, has an end, too.
func TestUntil(t *testing.T) {
	calls := []Call{grant(1, 0, 10*ms, 1), call(1, Renew, 500*ms, 510*ms, Yes), grant(2, 2*time.Second, 2010*ms, 2), call(2, Release, 2100*ms, 2110*ms, Yes)}
	h := New(terms, calls)
	for token, want := range map[int64]struct {
		at     time.Duration
		ranOut bool
	}{1: {1500 * ms, true}, 2: {3 * time.Second, false}, 3: {0, true}} {
		if at, ranOut := h.Until(token); at != want.at || ranOut != want.ranOut {
			t.Errorf("token %d: %s, %t", token, at, ranOut)
		}
	}
}
