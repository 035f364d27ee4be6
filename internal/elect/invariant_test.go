package elect

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// watch steps a state machine and checks the invariants after every step.
type watch struct {
	t      testing.TB
	set    Settings
	state  State
	lines  []string
	token  int64
	tree   bool // between a start and the end of its tree
	voided candidate.Outcome

	// asked is when the last request was sent. The deadlines follow from the last
	// granted or renewed one, computed by the documented rules and not with Timing.
	// guard is the guard's deadline.
	asked, stopBy, killBy, validUntil, guard time.Duration
	// graceEnds is when SIGKILL is due after the first signal.
	graceEnds time.Duration
}

func newWatch(t testing.TB, set Settings) *watch { return &watch{t: t, set: set, state: New(set)} }

// answered computes the deadlines of a lease whose request was sent at sent.
func (w *watch) answered(sent time.Duration) {
	ttl := w.set.TTL
	w.validUntil = sent + ttl - ttl/100 - 5*time.Millisecond
	w.killBy = w.validUntil - min(max(500*time.Millisecond, ttl/30), ttl/6)
	w.stopBy = w.killBy - w.grace(candidate.Expired)
}

// grace is the time from the first signal to SIGKILL.
func (w *watch) grace(why candidate.Outcome) time.Duration {
	switch why {
	case candidate.Lost:
		return w.set.LostGrace
	case candidate.Expired:
		return min(w.set.KillAfter, w.set.TTL/4)
	}
	return w.set.KillAfter
}

func (w *watch) step(e Event) string {
	from := w.state
	to, actions := Step(from, e)
	line := strings.TrimSuffix(Line(from, e, to, actions), "")
	w.lines = append(w.lines, fmt.Sprintf("%10s %s", e.At, line))
	w.state = to

	if from.Phase == candidate.Done {
		w.require(to.Phase == candidate.Done && len(actions) == 0, "done is over")
	}
	switch e.Kind {
	case TreeGone, StartFailed:
		w.tree = false
	case Granted:
		w.token = e.Lease.Token
		w.answered(e.Sent)
	case Renewed:
		if w.tree && w.voided == "" && e.At < w.stopBy {
			w.answered(e.Sent)
		}
	}
	for _, a := range actions {
		w.action(e, from, a)
	}
	if w.tree {
		w.alive(e, from, to, actions)
	}
	w.require(!to.Phase.Waiting() || to.Hold == Hold{} && to.Tree == Tree{}, "a candidate holds nothing")
	w.require(to.Phase >= candidate.Releasing || to.Ending == Ending{}, "a release has its phases")
	w.require(to.Phase.Waiting() || to.Phase == candidate.Done || to.Candidacy == to.next(), "a holder does not ask")
	if w.voided != "" && to.Phase > candidate.Checking {
		w.require(to.Outcome.Voids(), "lost and expired win")
	}
	if w.voided = ""; to.Outcome.Voids() && to.Phase != candidate.Done {
		w.voided = to.Outcome
	}
	_, wakes := to.Wake()
	w.require(wakes || to.Phase != candidate.Releasing, "a release has a deadline")
	w.require(to.Phase != candidate.Done || to.Outcome != candidate.Ordered || to.Ran || to.Orders.Count > 0, "where nothing ran, only an order ends as ordered")
	if wake, ok := to.Wake(); ok && wake <= e.At && e.Kind == Timer {
		again, actions := Step(to, e)
		next, _ := again.Wake()
		w.require(next > e.At || len(actions) > 0 && again.Phase != candidate.Killing, "a timer event is never asked for again at once")
	}
	return line
}

// alive checks a step after which a tree may be alive.
func (w *watch) alive(e Event, from, to State, actions []Action) {
	w.require(to.Phase.HasTree(), "a tree is never forgotten")
	w.require(to.StopBy == w.stopBy && to.KillBy == w.killBy && to.ValidUntil == w.validUntil, "the deadlines count from the request")
	w.require(w.guard == w.killBy, "the guard's kill-by is the elector's")
	if to.Phase == candidate.Stopping && from.Phase != candidate.Stopping {
		w.graceEnds = e.At + w.grace(to.Outcome)
	}
	killed := slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == Kill })
	wake, wakes := to.Wake()
	if !wakes {
		wake = candidate.Forever
	}
	switch {
	case e.At >= w.killBy:
		w.require(killed, "from kill-by on every answer is a kill")
	case to.Phase == candidate.Stopping:
		w.require(e.At < w.graceEnds, "a grace is never lengthened")
		w.require(wake <= min(w.graceEnds, w.killBy), "the end of the grace is waited for")
	case to.Phase != candidate.Killing:
		w.require(e.At < w.stopBy, "from stop-by on the command is being stopped")
		w.require(wake <= w.stopBy, "stop-by is waited for")
	}
	if to.Phase == candidate.Killing {
		w.require(killed && wake <= e.At+time.Second, "a kill is repeated")
	}
}

func (w *watch) action(e Event, from State, a Action) {
	switch a.Kind {
	case Acquire:
		w.asked = e.At
		w.require(!w.set.Checked || e.Kind == MayLead || e.Denial.Why == lease.ClockDiffers, "a checked host asks only when it may")
	case Check:
		w.require(w.set.Checked && a.Beside == w.tree, "a check only where one is wanted, and beside the renewals of a leader")
	case Pass:
		w.require(e.Kind == Order || e.Kind == PassOn || w.set.Checked, "a wake-up is passed on only by who does not use it")
	case Start:
		w.require(!w.tree, "one start between two ends of a tree")
		w.require(e.At < w.stopBy, "a start only while stop-by lies ahead")
		w.require(a.StartBy == w.stopBy, "and none that is carried out from then on")
		w.require(a.Lease.Token == w.token, "the command gets the token that was granted")
		w.require(from.Tick == 0 || a.Lease.Tick == from.Tick, "a command starts under its candidate's own tick")
		w.tree, w.guard = true, a.KillBy
	case Extend:
		w.guard = a.KillBy
	case Leave:
		w.tree = false
	case Listen:
		w.require(!from.Listening || e.Kind == Pinged, "nobody listens twice")
		w.require(!w.state.Renewing || e.Kind == Pinged, "nobody begins to listen while a renewal is unanswered")
		w.require(w.tree && w.state.Outcome != candidate.Lost, "only a holder listens")
	case Renew:
		w.asked = e.At
		w.require(!a.Lease.Offered || w.state.UnfitSince != 0 && e.At >= w.state.UnfitSince+w.set.TTL, "a lease is offered only after a TTL of failed checks")
		w.require(!from.Renewing || e.Kind != Timer, "one request at a time")
		w.require(w.tree, "a renewal only for a tree")
		w.require(e.At < w.stopBy || w.state.Outcome == candidate.Expired, "a renewal from stop-by on moves nothing")
		w.require(from.Outcome != candidate.Lost && !from.Taken, "no renewal of a lost lease")
	case Release:
		w.require(!w.tree, "a release only when the tree is gone")
		w.require(a.Lease.Token == w.token, "only the own lease is released")
	}
}

func (w *watch) require(ok bool, rule string) {
	if !ok {
		w.t.Helper()
		w.t.Fatalf("broken: %s\n%s", rule, strings.Join(w.lines, "\n"))
	}
}

// live plays a history: the world answers the machine's requests in any way and at any
// time, until the machine is done or the steps are used up.
func live(t testing.TB, set Settings, choose func(n int) int, steps int) *watch {
	w := newWatch(t, set)
	now := time.Duration(0)
	token := int64(0)
	w.step(Event{Kind: Begin})
	for range steps {
		s := w.state
		if s.Phase == candidate.Done {
			break
		}
		var possible []EventKind
		for kind := Timer; kind <= ReleaseFailed; kind++ {
			if plausible(s, kind) {
				possible = append(possible, kind)
			}
		}
		e := Event{Kind: possible[choose(len(possible))]}
		switch gap := choose(32); {
		case gap == 0:
			now += time.Duration(choose(int(2 * set.TTL))) // slept, or starved
		case gap < 24:
			now += time.Duration(choose(int(set.TTL / 40)))
		default:
			if wake, ok := s.Wake(); ok && wake > now {
				now, e = wake, Event{Kind: Timer}
			}
		}
		e.At = now
		ends := e.Kind == Order || s.Phase.Running() && slices.Contains([]EventKind{StartFailed, CommandEnded, TreeGone, LeaseLost}, e.Kind)
		if ends && choose(16) > 0 { // most runs go on
			e = Event{Kind: Timer, At: now}
		}
		e.Sent = w.asked
		if e.Kind == Denied {
			hows := []lease.How{lease.Held, lease.Settling, lease.Paused, lease.Served, lease.ClockDiffers}
			e.Denial = lease.Condition{Why: hows[choose(len(hows))], Remaining: time.Duration(choose(int(set.TTL))), Tick: int64(1 + choose(9))}
		}
		e.Signal = []int{1, 2, 3, 10, 15}[choose(5)]
		e.Exit.Code = choose(3)
		e.Lease = s.Lease
		if e.Kind == Granted {
			token++
			e.Lease = lease.Lease{Token: token, Tick: s.Tick}
			if s.Tick == 0 || choose(8) == 0 {
				e.Lease.Tick = int64(1 + choose(9))
			}
		}
		e.Lease.HandOver = choose(16) == 0
		if choose(3) == 0 && (e.Kind == NoAnswer || e.Kind == TreeGone) {
			e.Err = &lease.StoreError{Refused: choose(2) == 0, Permanent: choose(30) == 0}
		}
		w.step(e)
	}
	return w
}

// plausible reports whether an event answers a request that was made.
func plausible(s State, kind EventKind) bool {
	switch kind {
	case Granted, Denied:
		return s.Phase == candidate.Campaigning
	case MayLead, MayNotLead:
		return s.Phase == candidate.Checking || s.Phase.HasTree() && s.set.Checked
	case NoAnswer:
		return s.Phase == candidate.Campaigning || s.Phase.HasTree() && s.Renewing || s.Phase == candidate.Standby
	case Renewed, LeaseLost:
		return s.Phase.HasTree() && s.Renewing
	case Started:
		return s.Phase.HasTree() && !s.Ran
	case StartFailed:
		return s.Phase.HasTree() && !s.Ran
	case CommandEnded, TreeGone:
		return s.Phase.HasTree()
	case Pinged, Broken:
		return s.Phase.HasTree() && s.Listening
	case Released, ReleaseFailed:
		return s.Phase == candidate.Releasing && s.GiveUpAt != 0
	case Woke:
		return s.Phase == candidate.Standby
	case CannotWake:
		return s.Phase == candidate.Standby || s.Phase.HasTree() && s.Listening
	}
	return true
}

func randomSettings(choose func(n int) int) Settings {
	ttl := time.Second + time.Duration(choose(int(time.Minute)))
	killAfter := time.Duration(choose(int(2 * ttl)))
	if choose(4) == 0 {
		killAfter = 0
	}
	return Settings{
		Timing:  NewTiming(ttl, ttl/time.Duration(3+choose(4)), killAfter),
		Checked: choose(4) == 0,
		Retry:   ttl / 6, Jitter: float64(ttl%3) - 1, Wait: []time.Duration{0, 0, ttl, candidate.Forever}[choose(4)],
		KillAfter: killAfter, LostGrace: time.Duration(choose(int(3 * time.Second))), StopSignal: 15,
		StopSignalNamed: choose(2) == 0, StopOnRenewError: choose(4) == 0, Leftovers: candidate.Leftovers(choose(3)),
		MaxRuntime: time.Duration(choose(2) * choose(int(ttl/8))), Rejoin: choose(2) == 0, OncePer: choose(4) == 0,
	}
}

var (
	histories = flag.Uint64("histories", 12_000, "how many random histories are played")
	first     = flag.Uint64("first", 0, "the seed of the first one")
)

func TestRandomHistories(t *testing.T) {
	const usual = 12_000
	outcomes := map[candidate.Outcome]int{}
	seed := *first
	defer func() {
		if t.Failed() {
			t.Logf("seed %d; replay: go test ./internal/elect -run TestRandomHistories -first %d -histories 1", seed, seed)
		}
	}()
	for ; seed < *first+*histories; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		w := live(t, randomSettings(r.IntN), r.IntN, 200)
		outcomes[w.state.Outcome]++
	}
	t.Logf("%d histories: %v", *histories, outcomes)
	if *histories < usual { // too few to end in every way
		return
	}
	for _, o := range []candidate.Outcome{candidate.Exited, candidate.Ordered, candidate.HandedOver, candidate.MaxRuntime, candidate.LeftBehind, candidate.Detached, candidate.Lost, candidate.Expired, candidate.GuardDied, candidate.NotStarted, candidate.Denied, candidate.Skipped, candidate.Paused, candidate.Ineligible, candidate.Unavailable} {
		if outcomes[o] == 0 {
			t.Errorf("no history ended as %q", o)
		}
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("a candidate that is granted, starts, renews and ends"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Fuzz(func(t *testing.T, data []byte) {
		choose := func(n int) int {
			if len(data) == 0 || n <= 0 {
				return 0
			}
			v := int(data[0])
			data = data[1:]
			if n > 256 {
				return int(int64(n) * int64(v) / 256)
			}
			return v % n
		}
		live(t, randomSettings(choose), choose, len(data)+1)
	})
}

// The inequalities of Timing hold for every allowed TTL.
func TestTiming(t *testing.T) {
	check := func(ttl, renew, killAfter time.Duration) {
		x := NewTiming(ttl, renew, killAfter)
		if sum := x.Renew + 2*(x.Attempt+x.Pause) + x.Grace + x.KillMargin + x.Margin; sum > ttl/1000*932 {
			t.Errorf("ttl %s renew %s kill-after %s: two renewals, the grace and the margins take %s", ttl, renew, killAfter, sum)
		}
		stopBy, killBy, validUntil := x.StopBy(0), x.KillBy(0), x.ValidUntil(0)
		if !(0 < x.Renew && x.Renew < stopBy && stopBy <= killBy && killBy < validUntil && validUntil < ttl) {
			t.Errorf("ttl %s: renew %s stop-by %s kill-by %s valid-until %s", ttl, x.Renew, stopBy, killBy, validUntil)
		}
		if killBy-stopBy != min(killAfter, ttl/4) || validUntil-killBy < min(500*time.Millisecond, ttl/6) || ttl-validUntil < ttl/100 {
			t.Errorf("ttl %s: stop-by %s kill-by %s valid-until %s", ttl, stopBy, killBy, validUntil)
		}
	}
	for _, jitter := range []float64{-1, -0.3, 0, 0.3, 1} { // a holder's pauses are never longer
		set := Settings{Jitter: jitter}
		for _, pause := range []time.Duration{1, time.Millisecond, time.Hour} {
			if varied, shorter := set.varied(pause), set.shorter(pause); shorter > pause || shorter < pause-pause/4 || varied < pause-pause/4 || varied > pause+pause/4 {
				t.Errorf("jitter %v of %s: %s for a candidate, %s for a holder", jitter, pause, varied, shorter)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		ttl := MinTTL + time.Duration(r.Int64N(int64(time.Hour)>>r.IntN(14)))
		check(ttl, 1+time.Duration(r.Int64N(int64(ttl/3))), time.Duration(r.Int64N(int64(time.Minute))))
	}
	check(MinTTL, MinTTL/3, time.Hour)
	check(MinTTL, MinTTL/3, 0)
	check(365*24*time.Hour, 365*8*time.Hour, time.Hour)
}
