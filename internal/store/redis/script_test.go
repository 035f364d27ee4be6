package redis

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The scripts, case by case. A case is text: commands that prepare the server,
// one call, the answer wanted, and commands with what they must then answer.
//
// In these texts LEASE, STATE, WAKE, CALL, RUNS and SERVING are the six keys; me,
// other and third are holder ids; now, now+30s and now-30s are times of the
// server's clock, 30s is 30000 and 1h is 3600000; _ is nothing and ~ a space.
// SELF is the run id of the server. Answers are written in the same way: a time is rounded to ten seconds, a
// duration to ten seconds or, up to five, to "5s". That is what the real
// server's clock needs.
type scriptCase struct {
	name, before, call, want, after string
}

var ids = map[string]string{
	"me":    "host-a/1/" + strings.Repeat("a", 32),
	"other": "host-b/2/" + strings.Repeat("b", 32),
	"third": "host.c_c/333/" + strings.Repeat("c", 32),
}

var scripts = map[string]string{"acquire": acquireLua, "renew": renewLua, "release": releaseLua, "pass": passLua,
	"status": statusLua + "return status()", "handover": statusLua + handOverLua, "revoke": statusLua + revokeLua,
	"pause": statusLua + pauseLua, "resume": statusLua + resumeLua, "forget": statusLua + forgetLua}

// defaults of a call's arguments, in the order of ARGV.
var defaults = map[string]string{
	"acquire": "holder=me ttl=30s hold=0 tick=0 period=0 tries=0 settle=60s keep=100s meta={} seen=0 seenttl=0 seenexpires=0 seenleft=0 round=0 reach=0 from=0 until=0 waits=0",
	"renew":   "holder=me token=now-10s ttl=30s at=now-10s nb=now-10s tick=now-20s keep=100s meta={} offered=0",
	"release": "holder=me token=now-10s ran=1 success=0 exit=3 tick=now-20s at=now-10s nb=now-10s round=0 reach=0 keep=100s",
	"pass":    "",
	"status":  "",
	"revoke":  "now=0 keep=100s ttl=30s",
	"pause":   "for=3600s by=ann reason=_ keep=100s",
	"resume":  "",
	"forget":  "token=0 keep=100s",
}

const (
	leads = "SET LEASE me PX 20s; HSET STATE token now-10s holder me acquired now-10s min_hold_until now-10s tick now-20s ttl_ms 30s expires now+20s;"
	rival = "SET LEASE other PX 20s; HSET STATE token now-10s holder other acquired now-10s min_hold_until now-10s tick now-20s ttl_ms 40s expires now+20s;"
	// the state that a finished run leaves
	ended = "HSET STATE token now-10s holder _ acquired now-40s min_hold_until now-40s tick now-40s ttl_ms 40s expires now+20s;"
	known = "SET SERVING now-120s~SELF;"
)

func runScriptCases(t *testing.T, cases []scriptCase) {
	t.Helper()
	onBoth(t, func(t *testing.T, b backend) {
		self := b.names(t)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				c.before = strings.ReplaceAll(c.before, "SELF", self)
				c.after = strings.ReplaceAll(c.after, "SELF", self)
				b.do(t, "FLUSHALL")
				now := b.now(t)
				for _, line := range lines(c.before) {
					b.do(t, expand(t, line, now)...)
				}
				if got := render(b.call(t, c.call, now), now); got != c.want {
					t.Errorf("%s\n got: %s\nwant: %s", c.call, got, c.want)
				}
				for _, line := range lines(c.after) {
					command, want, _ := strings.Cut(line, " = ")
					if got := render(b.do(t, expand(t, command, now)...), now); got != want {
						t.Errorf("%s\n got: %s\nwant: %s", command, got, want)
					}
				}
			})
		}
	})
}

func lines(text string) (out []string) {
	for line := range strings.SplitSeq(text, ";") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// call runs "verb name=value …".
func (b backend) call(t *testing.T, call string, now int64) any {
	t.Helper()
	verb, given, _ := strings.Cut(call, " ")
	set := map[string]string{}
	for _, pair := range strings.Fields(given) {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	s := &Store{prefix: prefix}
	args := []any{"EVAL", headLua + scripts[verb], 6, s.leaseKey("k"), s.companion("state", "k"), s.companion("wake", "k"),
		s.companion("call", "k"), s.companion("runs", "k"), prefix + ":serving"}
	for _, pair := range strings.Fields(defaults[verb]) {
		name, value, _ := strings.Cut(pair, "=")
		if v, ok := set[name]; ok {
			value = v
			delete(set, name)
		}
		args = append(args, expand(t, value, now)...)
	}
	if len(set) > 0 {
		t.Fatalf("%s has no argument %v", verb, set)
	}
	v, err := b.raw.Do(t.Context(), args...).Result()
	if err != nil {
		return err.Error()
	}
	return v
}

var (
	relative = regexp.MustCompile(`\bnow(?:([+-]\d+)s)?\b`)
	duration = regexp.MustCompile(`^(\d+)([smh])$`)
	instant  = regexp.MustCompile(`\b\d{13}\b`)
)

func expand(t *testing.T, text string, now int64) []any {
	t.Helper()
	s := &Store{prefix: prefix}
	var out []any
	for _, word := range strings.Fields(text) {
		for name, key := range map[string]string{
			"LEASE": s.leaseKey("k"), "STATE": s.companion("state", "k"), "WAKE": s.companion("wake", "k"),
			"CALL": s.companion("call", "k"), "RUNS": s.companion("runs", "k"), "SERVING": prefix + ":serving", "_": "",
		} {
			if word == name {
				word = key
			}
		}
		word = strings.ReplaceAll(word, "~", " ")
		for name, id := range ids {
			word = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(word, id)
		}
		word = relative.ReplaceAllStringFunc(word, func(m string) string {
			seconds, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(m, "now"), "s"), 10, 64)
			return strconv.FormatInt(now+1000*seconds, 10)
		})
		if m := duration.FindStringSubmatch(word); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			word = strconv.FormatInt(n*map[string]int64{"s": 1000, "m": 60_000, "h": 3600_000}[m[2]], 10)
		}
		out = append(out, word)
	}
	return out
}

func render(v any, now int64) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case int64:
		return renderInt(v, now)
	case string:
		for name, id := range ids {
			v = strings.ReplaceAll(v, id, name)
			v = strings.ReplaceAll(v, " "+name+" ", "~"+name+"~")
		}
		if v == "" {
			return "_"
		}
		return instant.ReplaceAllStringFunc(v, func(m string) string {
			n, _ := strconv.ParseInt(m, 10, 64)
			return renderInt(n, now)
		})
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = render(v[i], now)
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprint(v)
}

func renderInt(n, now int64) string {
	switch tens := int64(math.Round(float64(n-now)/10_000)) * 10; {
	case tens == 0:
		return "now"
	case -1e6 < tens && tens < 1e6:
		return fmt.Sprintf("now%+ds", tens)
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n <= 5000:
		return "5s"
	}
	return fmt.Sprintf("%ds", int64(math.Round(float64(n)/10_000))*10)
}
