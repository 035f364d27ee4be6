package redis

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The scripts' answers compared with the model's, call by call. A seed gives a
// history; of one that fails what it does not need is left out, and the rest is
// shown.

var (
	histories   = flag.Int64("histories", 50, "play so many random histories")
	onlyHistory = flag.Int64("history", none, "play the one of this seed")
)

// enough histories go everywhere; see checkSeen. That many are for .ci/run.
const enough = 200

// toPlay is how many histories are played.
func toPlay() int64 {
	if testing.Short() {
		return *histories / 8
	}
	return *histories
}

// began is when histories begin. It is a whole number of periods.
const began = 1_900_022_400_000

func TestScriptsFollowTheModel(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		s := miniStage(t)
		eachHistory(t, toPlay(), s.history, s.play)
		if *onlyHistory == none && toPlay() >= enough {
			s.checkSeen(t)
		}
	})
	t.Run("redis-server", func(t *testing.T) {
		s := realStage(t)
		eachHistory(t, toPlay()/4, s.history, s.play)
	})
}

// The model is checked against the contract, by the answers that candidates get
// when the store has no fault.
func TestModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	history := func(_ *testing.T, seed int64) []step { return scheduled(seed) }
	eachHistory(t, 40*toPlay(), history, func(_ *testing.T, steps []step) string { return broken(steps) })
}

// eachHistory fails the test with the smallest history that check objects to.
func eachHistory(t *testing.T, n int64, history func(*testing.T, int64) []step, check func(*testing.T, []step) string) {
	t.Helper()
	first := int64(0)
	if *onlyHistory != none {
		first, n = *onlyHistory, *onlyHistory+1
	}
	for seed := first; seed < n; seed++ {
		steps := history(t, seed)
		if check(t, steps) == "" {
			continue
		}
		steps = smallest(steps, func(s []step) bool { return check(t, s) != "" })
		var lines strings.Builder
		for i, step := range steps {
			fmt.Fprintf(&lines, "%d. %s\n", i, step)
		}
		t.Fatalf("seed %d (-history): %s\nof the history\n%s", seed, check(t, steps), &lines)
	}
}

// smallest leaves out of a failing history what it fails without; the rest keeps
// its times.
func smallest(steps []step, fails func([]step) bool) []step {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for i := len(steps) - size; i >= 0; i -= size {
			fewer := slices.Delete(slices.Clone(steps), i, i+size)
			for _, left := range steps[i : i+size] {
				if i < len(fewer) {
					fewer[i].wait += left.wait
				}
			}
			if fails(fewer) {
				steps = fewer
			}
		}
	}
	return steps
}

// broken plays a history on the model and says which promise it breaks, if any.
func broken(steps []step) string {
	m := newModel(false, "self")
	j := judge{newest: none, served: none, starts: map[int64]int64{}, idle: map[int64]bool{}}
	for i, s := range steps {
		answer := m.do(s)
		if s.verb == "acquire" && s.period > 0 && (s.tick == 0 && !inTime(m.now, s.period) || s.tick != 0 && m.now >= s.tick+s.period) {
			return "" // no host is that late, and nobody waits that long
		}
		if objection := j.hear(m.now, s, answer); objection != "" {
			return fmt.Sprintf("step %d: %s", i, objection)
		}
	}
	return ""
}

// inTime says whether a host may begin a round now.
func inTime(now, period int64) bool { return 2*((now-began)%period) < period }

// judge follows the answers to the candidates of one crontab line.
type judge struct {
	leader         call
	until          int64 // its lease or minimum hold goes on
	newest, served int64 // rounds
	starts         map[int64]int64
	idle           map[int64]bool // tokens with which nothing ran
}

func (j *judge) hear(now int64, s step, a []any) (objection string) {
	round := func(tick int64) int64 { return (tick - began) / max(s.period, 1) }
	switch {
	case s.verb == "acquire" && a[0] == 1 && a[2] == j.leader.token:
		j.until = max(j.until, now+s.ttl)
	case s.verb == "acquire" && a[0] == 1:
		objection = j.granted(now, s, a[2].(int64), round(a[3].(int64)))
		j.leader, j.leader.token, j.leader.holdUntil = s.call, a[2].(int64), a[5].(int64)
		j.until = max(now+s.ttl, j.leader.holdUntil)
	case s.verb == "acquire" && a[0] == 3:
		tick := s.tick
		if tick == 0 {
			tick = now
		}
		if r := round(tick); r > j.served && r >= j.newest && j.starts[r] < s.tries {
			return "done, and nobody has served the tick"
		}
	case s.verb == "renew" && a[0] != 0:
		j.until = max(j.until, now+s.ttl)
	case s.verb == "release":
		j.release(s, round(s.tick))
	}
	return objection
}

func (j *judge) granted(now int64, s step, token, round int64) string {
	j.starts[round]++
	newest := j.newest
	j.newest = max(j.newest, round)
	switch {
	case token <= j.leader.token:
		return "the token does not grow"
	case now < j.until:
		return "a second lease, or one within the minimum hold"
	case s.period > 0 && round <= j.served:
		return "a served tick runs again"
	case s.period > 0 && round < newest:
		return "an old tick runs after a newer one"
	case s.period > 0 && j.starts[round] > s.tries:
		return "more starts than tries"
	}
	return ""
}

func (j *judge) release(s step, round int64) {
	if s.success {
		j.served = max(j.served, round)
	}
	if s.token != j.leader.token {
		return
	}
	if j.until = 0; s.ran {
		j.until = j.leader.holdUntil
	} else if !j.idle[s.token] {
		j.idle[s.token] = true
		j.starts[round]--
	}
}

// stage is a server whose clock the histories set.
type stage struct {
	backend
	setTime         func(ms int64)
	lastMillisecond bool
	lease, state    string
	keys            []string
	self            string         // names the server
	seen            map[string]int // answers by kind
}

func newStage(t *testing.T, addr string) *stage {
	st := &Store{prefix: prefix}
	s := &stage{
		backend: backend{addr: addr, raw: rawClient(t, addr)},
		lease:   st.leaseKey("k"), state: st.companion("state", "k"), seen: map[string]int{},
	}
	s.self = s.names(t)
	s.keys = []string{s.lease, s.state, st.companion("wake", "k"), st.companion("ctl", "k"), st.companion("runs", "k"), prefix + ":settled"}
	return s
}

func miniStage(t *testing.T) *stage {
	m := startMiniredis(t)
	s := newStage(t, m.Addr())
	s.setTime = func(ms int64) { m.SetTime(time.UnixMilli(ms)) }
	return s
}

func realStage(t *testing.T) *stage {
	server := script.StartRedis(t)
	setTime := func(ms int64) {
		// In the middle of the millisecond, for the fraction is not kept exactly.
		server.SetClock(time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000") + "5")
	}
	setTime(began)
	s := newStage(t, server.Addr)
	s.setTime, s.lastMillisecond = setTime, true
	return s
}

// history has clocks that are set back on the real server only: miniredis counts
// down what is left instead of keeping the end.
func (s *stage) history(_ *testing.T, seed int64) []step {
	return troubled(seed, newModel(s.lastMillisecond, s.self), s.lastMillisecond)
}

// play returns the first difference.
func (s *stage) play(t *testing.T, steps []step) string {
	t.Helper()
	s.do(t, "FLUSHALL")
	m := newModel(s.lastMillisecond, s.self)
	for i, step := range steps {
		want := m.do(step)
		s.setTime(m.now)
		got, shown := s.take(t, step)
		if want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("step %d answers\n got: %v\nwant: %v", i, got, want)
		}
		if want := m.show(); shown != want {
			return fmt.Sprintf("after step %d\n got: %s\nwant: %s", i, shown, want)
		}
		s.seen[kindOf(step.verb, want)]++
	}
	return ""
}

// take does a step and returns the answer and what others can see of the store
// then: who has the lease for how long, who is called, since when the store
// remembers, the last runs.
func (s *stage) take(t *testing.T, step step) (answer any, shown string) {
	t.Helper()
	ctx := t.Context()
	pipe := s.raw.Pipeline()
	pipe.Exists(ctx, s.keys...) // what has ended goes for good, also when the clock is set back
	taken := pipe.Do(ctx, s.command(t, step)...)
	value, left := pipe.Get(ctx, s.lease), pipe.Do(ctx, "PTTL", s.lease)
	wake, ctl, runs := pipe.Exists(ctx, s.keys[2]), pipe.Exists(ctx, s.keys[3]), pipe.LRange(ctx, s.keys[4], 0, -1)
	marker := pipe.Get(ctx, s.keys[5])
	_, _ = pipe.Exec(ctx)
	if err := runs.Err(); err != nil {
		t.Fatal(err)
	}
	answer, err := taken.Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		answer = []string{err.Error()}
	}
	return answer, fmt.Sprintf("%q %v wake %d ctl %d marker %s runs %v",
		value.Val(), left.Val(), wake.Val(), ctl.Val(), marker.Val(), runs.Val())
}

// show is what take shows.
func (m *model) show() string {
	left := m.leaseEnd - m.now
	switch {
	case m.value == "":
		left = -2
	case m.leaseEnd == never:
		left = -1
	}
	marker := ""
	if m.born != none {
		marker = fmt.Sprint(m.born, " ", m.self)
	}
	var runs []string
	for _, r := range m.runs {
		runs = append(runs, r.record)
	}
	return fmt.Sprintf("%q %d wake %d ctl %d marker %s runs %v", m.value, left, bit(m.wakeEnd > 0), bit(m.ctlEnd > 0), marker, runs)
}

func (s *stage) command(t *testing.T, step step) []any {
	t.Helper()
	c := step.call
	var args []any
	switch step.verb {
	case "acquire":
		args = []any{c.holder, c.ttl, c.minHold, c.tick, c.period, c.tries, settling, c.keep(), "{}", c.seen, c.seenTTL, c.seenEnds, c.seenLeft, c.round(), c.reach(), c.from, c.to, bit(c.waits)}
	case "renew":
		args = []any{c.holder, c.token, c.ttl, c.granted, c.holdUntil, c.tick, c.keep(), "{}", bit(c.offered)}
	case "release":
		args = []any{c.holder, c.token, bit(c.ran), bit(c.success), c.exit, c.tick, c.granted, c.holdUntil, c.round(), c.reach(), c.keep()}
	case "revoke":
		args = []any{bit(c.atOnce), minKeep.Milliseconds(), 30 * second}
	case "pause":
		args = []any{c.pause, "ann@db1", "", minKeep.Milliseconds()}
	case "forget":
		args = []any{bit(c.atOnce), minKeep.Milliseconds()}
	case "pass", "handover", "resume":
	case "forget the lease":
		return []any{"DEL", s.lease}
	case "forget the state":
		return []any{"DEL", s.state}
	case "forget all":
		return []any{"FLUSHALL"}
	case "spoil":
		const spoil = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) redis.call('PEXPIRE', KEYS[1], ARGV[3])"
		return []any{"EVAL", spoil, 1, s.state, step.text[0], step.text[1], hour}
	case "put":
		return []any{"SET", s.lease, step.text[0], "PX", step.ttl}
	case "put for ever":
		return []any{"SET", s.lease, step.text[0]}
	default:
		t.Fatalf("no such step: %s", step.verb)
	}
	eval := []any{"EVAL", headLua + scripts[step.verb], len(s.keys)}
	for _, key := range s.keys {
		eval = append(eval, key)
	}
	return append(eval, args...)
}

// kindOf names what sort of answer this is: by its code, and why.
func kindOf(verb string, answer []any) string {
	why := map[string]int{"acquire": 3, "renew": 2, "release": 2, "handover": 2, "revoke": 2, "pause": 2, "resume": 2, "forget": 2}[verb]
	kind := verb
	for i, item := range answer {
		text, isText := item.(string)
		switch {
		case i == 0 && isText:
			kind += " fault" + text[strings.LastIndex(text, ": "):]
		case i == 0, isText && i == why:
			kind += fmt.Sprint(" ", item)
		case verb == "acquire" && answer[0] == 1 && i == 4 && item != answer[1]:
			kind += " again"
		}
	}
	return kind
}

// checkSeen asserts that the histories went everywhere.
func (s *stage) checkSeen(t *testing.T) {
	for _, kind := range []string{
		"acquire 1", "acquire 1 again", "acquire 0 held", "acquire 0 cooldown", "acquire 0 revoked", "acquire 0 foreign",
		"acquire 2 fresh", "acquire 2 rollback", "acquire 2 vanished", "acquire 2 expired", "acquire 3 served", "acquire 3 given-up", "acquire 4", "acquire 5", "acquire 6", "pause 1 held", "pause 1 ", "resume 1 held", "resume 1 ", "forget 1 held", "forget 1 ",
		"acquire fault: field token is out of range", "acquire fault: token is out of range", "renew 1", "renew 2", "renew 0 other",
		"renew 0 cooldown", "renew 0 revoked", "renew 0 newer", "renew 0 released",
		"release 1", "release 0 gone", "release 0 other", "pass 1",
		"handover 1 held", "revoke 1 held", "revoke 1 cooldown", "revoke 1 revoked", "revoke 1 foreign", "revoke 1 ",
	} {
		if s.seen[kind] == 0 {
			t.Errorf("no call was answered with %q", kind)
		}
	}
}
