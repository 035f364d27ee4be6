package redis

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

var (
	//go:embed row.lua
	rowLua string
	//go:embed read.lua
	readLua string
	//go:embed swap.lua
	swapLua string
)

// keeper is a [keep.Keeper] for the calls of one verb.
type keeper struct {
	*Store
	op string
}

// kept is a row as the server had it when it was read.
type kept struct {
	lease   string // "" if there is none, else with a mark before it: another program's may be empty
	label   string // of the state: what the lease would be
	expires int64  // of the state's grant
	runs    string
	serves  bool // the server has a record of since when it serves
}

// Read implements [keep.Keeper].
func (k keeper) Read(ctx context.Context, key string) (keep.Row, error) {
	a, _, err := k.eval(ctx, k.op, readLua, key)
	if err != nil {
		return keep.Row{}, err
	}
	return k.row(key, a)
}

// Swap implements [keep.Keeper]. The lease is written before the state, since it is what other
// programs see.
func (k keeper) Swap(ctx context.Context, r keep.Row, e keep.Effect) (now keep.Row, saved bool, err error) {
	was := r.Kept.(kept)
	state := r.State.Kept()
	runs, errRuns := json.Marshal(state.Runs)
	state.Runs = nil
	text, errText := json.Marshal(state)
	if err := errors.Join(errRuns, errText); err != nil {
		return r, false, err
	}
	shown, hold := k.shown(r, e)
	version := max(number(r.Version)+1, r.Now.Wall) // it grows even if the state is deleted and made anew
	newRuns := string(runs)
	if newRuns == was.runs || len(r.Runs) == 0 && was.runs == "" {
		newRuns = ""
	}
	serving := ""
	if e.Renewed && !was.serves && r.Now.Server != "" && k.servers.kind != cluster {
		serving = fmt.Sprint(r.Now.Wall, " ", r.Now.Server)
	}
	a, addr, err := k.eval(ctx, k.op, swapLua, r.Key, textOf(r.Version), was.lease,
		version, string(text), newRuns, r.Keep, shown, hold, bit(e.Renewed), bit(e.Calls), bit(e.Wakes), serving)
	if err != nil {
		return r, false, err
	}
	if a.int(0) == 0 {
		now, err := k.row(r.Key, a)
		return now, false, err
	}
	// Something else may answer, too: only the version that was sent shows that it was written.
	written, server, confirmed := a.int(1), a.text(2), a.text(3)
	if a.int(0) != 1 || a.bad || confirmed != strconv.FormatInt(version, 10) {
		return r, false, k.noAnswer(r.Key)
	}
	if e.Renewed {
		if err := k.servers.confirm(ctx, k.op, k.leaseKey(r.Key), addr); err != nil {
			return r, false, err
		}
	}
	r.Now, r.Version = k.At(written, server), version
	switch {
	case hold > 0:
		was.lease = there + shown
	case hold == 0:
		was.lease = ""
	}
	r.Kept = kept{lease: was.lease, label: r.Label(), expires: expires(r.State), runs: cmp.Or(newRuns, was.runs), serves: was.serves || serving != ""}
	return r, true, nil
}

// there marks a lease that is there.
const there = "="

// shown returns the lease that other programs are to see, and how long it lasts, in ms; asItIs if
// it is not written.
func (k keeper) shown(r keep.Row, e keep.Effect) (label string, hold int64) {
	const asItIs = -1
	was, g := r.Kept.(kept), r.Grant
	switch {
	case g == nil:
		return "", 0
	case g.Foreign, !e.Renewed && r.Label() == was.label && g.Expires == was.expires:
		return "", asItIs
	}
	return r.Label(), max(1, g.Expires-r.Now.Up)
}

func expires(st rules.State) int64 {
	if st.Grant == nil {
		return 0
	}
	return st.Grant.Expires
}

// row reads what row.lua answers.
func (k keeper) row(key string, a answer) (keep.Row, error) {
	now, left := a.int(1), a.int(4)
	r := keep.Row{State: rules.New(key), Now: k.At(now, a.text(2))}
	was, value := kept{runs: a.text(7)}, a.text(3)
	if left != -2 { // there is one
		was.lease = there + value
	}
	since, by, _ := strings.Cut(a.text(9), " ")
	if began, err := strconv.ParseInt(since, 10, 64); err == nil && by == r.Now.Server {
		r.Now.Serving, was.serves = now-began, true
	}
	version, ends := a.text(5), a.text(8)
	if a.bad {
		return r, k.noAnswer(key)
	}
	if version != "" || a.text(6) != "" {
		var err error
		if r.State, r.Version, err = k.parse(key, version, a.text(6), was.runs); err != nil {
			return r, &keep.Untrusted{Place: k.companion("state", key), Err: err}
		}
	}
	set, err := strconv.ParseInt(ends, 10, 64)
	if g := r.Grant; g != nil && err == nil {
		g.Expires = set
	}
	was.label = r.Label()
	shown := rules.Shown{Value: lease.Cut(value, lease.MaxValue), TTL: max(0, left)}
	if was.lease == there {
		shown.Value = `""`
	}
	if left >= 0 {
		shown.Expires = now + max(1, left) // in its last millisecond a lease has 0 left, and is there
		const rounding = 2                 // the expiry as it was set is exact
		if err == nil && set-shown.Expires <= rounding && shown.Expires-set <= rounding {
			shown.Expires = max(set, now+1)
		}
	}
	r.Follow(shown, r.Now)
	was.expires = expires(r.State)
	r.Kept = was
	return r, nil
}

// parse reads a state. A damaged one is an error: see [keep.Keeper].
func (k keeper) parse(key, version, state, runs string) (st rules.State, _ any, err error) {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n <= 0 {
		return st, nil, fmt.Errorf("version %q", version)
	}
	if st, err = k.Store.Parse(key, []byte(state)); err != nil {
		return st, nil, err
	}
	if runs != "" && json.Unmarshal([]byte(runs), &st.Runs) != nil {
		return st, nil, errors.New("its runs are damaged")
	}
	return st, n, nil
}

func number(version any) int64 { n, _ := version.(int64); return n }

func textOf(version any) string {
	if version == nil {
		return ""
	}
	return strconv.FormatInt(number(version), 10)
}

// Names implements [keep.Keeper]. It scans all names of the server, or of all primaries of a
// cluster, in pages, so that no other request has to wait long.
func (k keeper) Names(ctx context.Context) (names []string, err error) {
	scan := func(c *redis.Client) (any, error) { return nil, k.scan(ctx, c, &names) }
	if k.servers.kind == cluster {
		err = k.servers.eachPrimary(ctx, k.op, k.leaseKey(""), scan)
	} else {
		_, err = k.servers.do(ctx, k.op, k.leaseKey(""), scan)
	}
	return names, err
}

// scan adds the keys of one server, which it finds by their leases and their states.
func (k keeper) scan(ctx context.Context, c *redis.Client, names *[]string) error {
	const atATime = 1000
	for cursor := uint64(0); ; {
		found, next, err := c.Scan(ctx, cursor, escapeGlob(k.prefix)+":*", atATime).Result()
		if err != nil {
			return err
		}
		for _, name := range found {
			*names = append(*names, k.keyOf(name))
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// keyOf returns the key whose lease or state has this name, "" for any other name.
func (s *Store) keyOf(name string) string {
	if state, ok := strings.CutPrefix(name, s.prefix+":state:{"); ok {
		if name, ok = strings.CutSuffix(state, "}"); !ok {
			return ""
		}
	}
	key, _ := strings.CutPrefix(name, s.leaseKey(""))
	if key == name {
		return ""
	}
	return key
}

// escapeGlob returns a pattern that matches only this text.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// eval runs a script for a key, and returns the address of the server that answered.
func (s *Store) eval(ctx context.Context, op, script, key string, args ...any) (answer, string, error) {
	keys := []string{s.leaseKey(key), s.companion("state", key), s.companion("wake", key), s.companion("call", key)}
	if s.servers.kind != cluster { // in a cluster it would have another slot
		keys = append(keys, s.prefix+":serving")
	}
	var server string
	v, err := s.servers.do(ctx, op, s.leaseKey(key), func(c *redis.Client) (any, error) {
		server = c.Options().Addr
		// EVAL, not EVALSHA, which takes one more round trip after a restart of the server,
		// when many candidates ask at once.
		return c.Eval(ctx, rowLua+script, keys, args...).Result()
	})
	items, _ := v.([]any)
	return answer{items: items, bad: items == nil}, server, err
}

// answer reads what a script returned. It trusts nothing, since the answer may come from
// another program. An item of another type makes it bad, and a bad answer grants nothing.
type answer struct {
	items []any
	bad   bool
}

// int returns item i, a number that a script can have counted.
func (a *answer) int(i int) int64 {
	const most = 1 << 53 // Lua's numbers are doubles
	if i < len(a.items) {
		if n, ok := a.items[i].(int64); ok && -2 <= n && n <= most {
			return n
		}
	}
	a.bad = true
	return -1
}

// text returns item i, "" if there is none.
func (a *answer) text(i int) string {
	if i < len(a.items) {
		if a.items[i] == nil {
			return ""
		}
		if s, ok := a.items[i].(string); ok {
			return s
		}
	}
	a.bad = true
	return ""
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
