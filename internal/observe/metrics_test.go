package observe

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// observe passes the state machine's steps for these events to the observer.
func observe(sink campaign.Observer, set elect.Settings, events ...elect.Event) {
	state := elect.New(set)
	for _, e := range events {
		next, actions := elect.Step(state, e)
		sink.Observe(campaign.Transition{From: state, Event: e, To: next, Actions: actions})
		state = next
	}
}

var usual = elect.Settings{
	Timing: elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second), Retry: 5 * time.Second,
	KillAfter: 10 * time.Second, LostGrace: time.Second, StopSignal: 15,
}

// led are the events of a run up to its renewal at 10 s.
func led(more ...elect.Event) []elect.Event {
	return append([]elect.Event{
		{Kind: elect.Begin},
		{Kind: elect.Granted, At: time.Second, Sent: time.Second, Lease: lease.Lease{Token: 7, TTL: 30 * time.Second}},
		{Kind: elect.Started, At: 2 * time.Second},
		{Kind: elect.Timer, At: 11 * time.Second},
		{Kind: elect.Renewed, At: 11 * time.Second, Sent: 11 * time.Second, Lease: lease.Lease{Token: 7, TTL: 30 * time.Second}},
	}, more...)
}

func ended(at time.Duration, code int) []elect.Event {
	return []elect.Event{{Kind: elect.TreeGone, At: at, Exit: candidate.Exit{Code: code}}, {Kind: elect.Released, At: at}}
}

func TestMetrics(t *testing.T) {
	started := float64(time.Now().Unix())
	away := errors.New("away")
	tests := map[string]struct {
		events []elect.Event
		want   map[int]float64 // counters that are missing are 0, gauges unknown; -1: a time of today
	}{
		"nothing yet": {nil, nil},
		"leading":     {led(), map[int]float64{acquired: 1, renewals: 1, isLeader: 1, token: 7, ttl: 30}},
		"success": {led(ended(12*time.Second, 0)...),
			map[int]float64{acquired: 1, renewals: 1, isLeader: 0, token: 7, ttl: 30, lastSuccess: -1, runDuration: 10, exitCode: 0}},
		"failure": {led(ended(12*time.Second, 3)...),
			map[int]float64{acquired: 1, renewals: 1, isLeader: 0, token: 7, ttl: 30, runDuration: 10, exitCode: 3}},
		"descendants": {led(append([]elect.Event{{Kind: elect.CommandEnded, At: 12 * time.Second}}, ended(13*time.Second, 0)...)...),
			map[int]float64{acquired: 1, renewals: 1, isLeader: 0, token: 7, ttl: 30, lastSuccess: -1, runDuration: 10, exitCode: 0}},
		"ordered": {led(append([]elect.Event{{Kind: elect.Order, Signal: 15, At: 12 * time.Second}}, ended(15*time.Second, 0)...)...),
			map[int]float64{acquired: 1, renewals: 1, isLeader: 0, token: 7, ttl: 30, runDuration: 13, exitCode: 0, killDuration: 3}},
		"outage": {led(elect.Event{Kind: elect.Timer, At: 21 * time.Second}, elect.Event{Kind: elect.NoAnswer, At: 22 * time.Second, Err: away}, elect.Event{Kind: elect.NoAnswer, At: 24 * time.Second, Err: away}),
			map[int]float64{acquired: 1, renewals: 1, renewalFailures: 2, isLeader: 1, token: 7, ttl: 30}},
		"lost": {led(elect.Event{Kind: elect.LeaseLost, At: 21 * time.Second}, elect.Event{Kind: elect.Timer, At: 40 * time.Second}),
			map[int]float64{acquired: 1, renewals: 1, lost: 1, isLeader: 0, token: 7, ttl: 30}},
		"expired": {led(elect.Event{Kind: elect.Timer, At: 40 * time.Second}),
			map[int]float64{acquired: 1, renewals: 1, lost: 1, isLeader: 0, token: 7, ttl: 30}},
		"denied":      {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held}}}, map[int]float64{skips: 1}},
		"tick served": {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Served}}}, map[int]float64{skips: 1}},
		"too late":    {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Granted, At: 40 * time.Second}}, nil},
		"not started": {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Granted}, {Kind: elect.StartFailed}},
			map[int]float64{acquired: 1, isLeader: 0, token: 0, ttl: 0}},
	}
	for name, test := range tests {
		m := NewMetrics("k", nil)
		observe(m, usual, test.events...)
		got, _ := m.snapshot()
		for i, v := range got {
			want, known := test.want[i]
			switch {
			case v.known != (known || metrics[i].kind == "counter"):
				t.Errorf("%s: %s is known: %t", name, metrics[i].name, v.known)
			case want == -1:
				if v.value < started || v.value > started+600 {
					t.Errorf("%s: %s is %f at %f", name, metrics[i].name, v.value, started)
				}
			case v.value != want:
				t.Errorf("%s: %s is %f, want %f", name, metrics[i].name, v.value, want)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const labels = `{key_class="k",key="k"}`
	for _, text := range []string{
		"nonsense", "\x00", "leader_acquired_total 1", `leader_acquired_total{key_class="x",key="k"} 1`,
		"leader_acquired_total" + labels, "leader_acquired_total" + labels + " ", "leader_acquired_total" + labels + " x",
		"leader_acquired_total" + labels + " -1", "leader_acquired_total" + labels + " NaN", "leader_acquired_total" + labels + " +Inf",
		"leader_acquired_total" + labels + " 1e300", "leader_acquired_total" + labels + " 1 1795241090012", "\x1b[2J" + labels + " 1",
	} {
		if v, err := parse([]byte("# HELP x\n"+text+"\n"), labels); err == nil || v != (values{}) {
			t.Errorf("%q was taken as %v", text, v)
		}
	}
	if _, err := parse([]byte("leaderrun_of_another_version"+labels+" 1\n"), labels); err != nil {
		t.Errorf("a metric that is not known: %v", err)
	}
}

// docs/settings.md has a row for exactly these metrics.
func TestMetricsAreDocumented(t *testing.T) {
	page := must.Read(t, "../../docs/settings.md")
	var listed, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge) \\|").FindAllStringSubmatch(page, -1) {
		listed = append(listed, row[1]+" "+row[2])
	}
	for _, m := range metrics {
		want = append(want, m.name+" "+m.kind)
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the page lists %q, the metrics are %q", listed, want)
	}
}

func TestFileNames(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("/", 199)
	for _, key := range []string{"k", "K", "a/b", "a:b", "a-b", "a.b", "..", "../../x", long, long + "a", long + "b", strings.Repeat("k", 200)} {
		name := fileName(key)
		if strings.Contains(name, "/") || len(name) > 200 || seen[name] != "" {
			t.Errorf("%s gets %s, as %q does", key, name, seen[name])
		}
		seen[name] = key
	}
}

// textfile observes one run of the key k whose file is in dir, and returns the file and
// the log.
func textfile(t *testing.T, dir string, events ...elect.Event) (text, said string) {
	t.Helper()
	var out strings.Builder
	m := NewMetrics("k", nil)
	f := NewTextfile(dir, "k", m, NewLogger(&out, slog.LevelWarn, Form{}))
	observe(sinks{m, f}, usual, events...)
	f.Close()
	written, _ := os.ReadFile(filepath.Join(dir, "leaderrun-k.prom"))
	return string(written), out.String()
}

type sinks []campaign.Observer

func (s sinks) Observe(t campaign.Transition) {
	for _, sink := range s {
		sink.Observe(t)
	}
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		if !strings.Contains(text, name+`{key_class="k",key="k"} `+value+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
}

func TestTextfileCarriesOver(t *testing.T) {
	dir := t.TempDir()
	text, said := textfile(t, dir, led(ended(12*time.Second, 0)...)...)
	has(t, text, "leader_acquired_total 1", "leader_renewals_total 1", "leader_lost_total 0", "leaderrun_last_run_exit_code 0")
	text, _ = textfile(t, dir, led(ended(12*time.Second, 3)...)...)
	has(t, text, "leader_acquired_total 2", "leader_renewals_total 2", "leaderrun_last_run_exit_code 3", "leaderrun_is_leader 0")
	if !strings.Contains(text, "last_success") {
		t.Errorf("the last success is forgotten:\n%s", text)
	}
	// The file of a run that was killed says that it leads.
	text, _ = textfile(t, dir, led()...)
	has(t, text, "leader_acquired_total 3", "leaderrun_is_leader 1", "leaderrun_token 7")
	met := func(token int64) []elect.Event {
		return []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held, Token: token}}}
	}
	text, _ = textfile(t, dir, met(7)...)
	has(t, text, "leaderrun_skips_total 1", "leaderrun_is_leader 1")
	text, _ = textfile(t, dir, met(8)...)
	has(t, text, "leaderrun_skips_total 2", "leaderrun_is_leader 0", "leaderrun_token 7", "leader_acquired_total 3")
	if said != "" {
		t.Errorf("it said %q", said)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestTextfileInTrouble(t *testing.T) {
	tests := map[string]struct {
		prepare func(dir, file string) error
		want    string
		written bool
	}{
		"garbage":     {func(_, file string) error { return os.WriteFile(file, []byte("\x1b[2Jx\n"), 0o600) }, "start anew: leaderrun-k.prom cannot be used: line 1 is not leaderrun's\n  look for", true},
		"huge":        {func(_, file string) error { return os.WriteFile(file, make([]byte, 1<<20), 0o600) }, "it is too long", true},
		"a fifo":      {func(_, file string) error { return syscall.Mkfifo(file, 0o600) }, "it is no regular file", true},
		"a link away": {func(_, file string) error { return os.Symlink("/etc/passwd", file) }, "path escapes from parent", true},
		"a loop":      {func(_, file string) error { return os.Symlink("leaderrun-k.prom", file) }, "too many levels of symbolic links", true},
		"a directory": {func(_, file string) error { return os.Mkdir(file, 0o700) }, "it is no regular file", false},
		"planted": {func(dir, _ string) error {
			return os.Symlink("/nowhere/x", filepath.Join(dir, ".leaderrun-k.prom.new"))
		}, "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			file := filepath.Join(dir, "leaderrun-k.prom")
			must.Succeed(t, errors.Join(os.Mkdir(dir, 0o700), test.prepare(dir, file)))
			text, said := textfile(t, dir, led(ended(12*time.Second, 0)...)...)
			if test.want == "" && said != "" || !strings.Contains(said, test.want) || strings.Count(said, "leaderrun: ") > 1 {
				t.Errorf("it said %q, want %q once", said, test.want)
			}
			if strings.Contains(text, "leader_acquired_total{") != test.written {
				t.Errorf("the file has\n%s", text)
			}
			if test.written {
				has(t, text, "leader_acquired_total 1")
				if info, err := os.Lstat(file); err != nil || info.Mode() != 0o644 {
					t.Errorf("%v, %v", info, err)
				}
			}
		})
	}
}

// A link with a trailing slash is a link, too.
func TestTextfileFollowsNoLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	must.Succeed(t, os.Symlink(t.TempDir(), link))
	for _, dir := range []string{link, link + "/", link + "/."} {
		text, said := textfile(t, dir, led(ended(12*time.Second, 0)...)...)
		if text != "" || !strings.Contains(said, "it is a symbolic link") {
			t.Errorf("%s: %q, %q", dir, text, said)
		}
	}
}

// A directory that another process keeps locked does not delay the end of a run.
func TestTextfileOfALockedDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := os.Open(dir)
	must.Succeed(t, err)
	defer held.Close()
	must.Succeed(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	began := time.Now()
	text, said := textfile(t, dir, elect.Event{Kind: elect.Begin}, elect.Event{Kind: elect.Denied, Denial: lease.Condition{Why: lease.Held}})
	late := strings.Contains(said, "flock") || strings.Contains(said, "within a second") // on a busy machine
	if text != "" || !late || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %q, %q", time.Since(began), text, said)
	}
}
