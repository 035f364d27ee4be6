package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestLatency(t *testing.T) {
	timing := elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second) // an attempt takes 2 s at most
	for worst, want := range map[time.Duration]lease.Verdict{
		time.Millisecond: lease.Fine, 600 * time.Millisecond: lease.Doubtful, 3 * time.Second: lease.Bad,
	} {
		if f := latency(time.Millisecond, worst, timing); f.Verdict != want || (f.Hint == "") != (want == lease.Fine) {
			t.Errorf("%s: %+v", worst, f)
		}
	}
}

func TestLatencyIsRound(t *testing.T) {
	short := elect.NewTiming(time.Second, time.Second/3, 0) // an attempt takes a fifteenth
	if f := latency(time.Millisecond, time.Millisecond, short); !strings.HasSuffix(f.Text, "may take 67ms") {
		t.Errorf("%+v", f)
	}
}

func TestClock(t *testing.T) {
	timing := elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second) // 1.0 % are allowed
	for drift, want := range map[float64]lease.Verdict{0: lease.Fine, 2: lease.Fine, -2: lease.Fine, 8: lease.Fine, 20: lease.Bad, -20: lease.Bad} {
		if f := clock(drift, time.Second, timing); f.Verdict != want || (f.Hint == "") != (want == lease.Fine) {
			t.Errorf("%g ms: %+v", drift, f)
		}
	}
}

func TestChildren(t *testing.T) {
	list := filepath.Join(t.TempDir(), "children")
	if f := Children(list, 59*time.Second); len(f) != 1 || f[0].Verdict != lease.Doubtful || f[0].Hint == "" {
		t.Errorf("a kernel without lists of children: %+v", f)
	}
	if f := Children(list, time.Minute); f != nil {
		t.Errorf("the same with the TTL of the hint: %+v", f)
	}
	must.Succeed(t, os.WriteFile(list, nil, 0o600))
	if f := Children(list, 30*time.Second); f != nil {
		t.Errorf("a kernel with them: %+v", f)
	}
}

func TestTasks(t *testing.T) {
	group := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(group, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	member := write("membership", "0::/job\n")
	write("job/pids.current", "70\n")
	for most, want := range map[string]lease.Verdict{"1000\n": lease.Fine, "80\n": lease.Doubtful, "max\n": ""} {
		write("job/pids.max", most)
		findings := Tasks(group, member)
		if want == "" && len(findings) != 0 || want != "" && (len(findings) != 1 || findings[0].Verdict != want) {
			t.Errorf("%q: %+v", most, findings)
		}
	}
	if findings := Tasks(group, write("old", "4:memory:/x\n")); findings != nil {
		t.Errorf("without cgroup v2: %+v", findings)
	}
}

// In less than half a processor guards were late (docs/guard.md#limits).
func TestProcessor(t *testing.T) {
	group := t.TempDir()
	member := filepath.Join(group, "membership")
	must.Succeed(t, os.WriteFile(member, []byte("0::/\n"), 0o600)) // as in a container
	for most, doubtful := range map[string]bool{"10000 100000\n": true, "49999 100000\n": true, "50000 100000\n": false, "400000 100000\n": false, "max 100000\n": false, "": false} {
		must.Succeed(t, os.WriteFile(filepath.Join(group, "cpu.max"), []byte(most), 0o600))
		findings := Processor(group, member, 89*time.Second)
		if doubtful != (len(findings) == 1 && findings[0].Verdict == lease.Doubtful && strings.Contains(findings[0].Hint, "limits.cpu")) || !doubtful && findings != nil {
			t.Errorf("%q: %+v", most, findings)
		}
	}
	must.Succeed(t, os.WriteFile(filepath.Join(group, "cpu.max"), []byte("10000 100000\n"), 0o600))
	if findings := Processor(group, member, 90*time.Second); findings != nil {
		t.Errorf("with the TTL of the hint: %+v", findings)
	}
}

func TestPath(t *testing.T) {
	if findings := Path("/usr/bin/leaderrun"); findings != nil {
		t.Errorf("%+v", findings)
	}
	findings := Path("/usr/local/bin/leaderrun")
	if len(findings) != 1 || findings[0].Verdict != lease.Doubtful || findings[0].Hint != "write /usr/local/bin/leaderrun in crontabs" {
		t.Errorf("%+v", findings)
	}
}

// slow is a store that takes a given time for each answer.
type slow struct {
	Store
	after []time.Duration
}

func (s *slow) Inspect(context.Context, string) (lease.Status, error) {
	now := time.Now().UnixMilli()
	time.Sleep(s.after[0])
	s.after = s.after[1:]
	return lease.Status{Now: now}, nil
}

// A late answer does not make the store's clock look wrong.
func TestDriftOfASlowStore(t *testing.T) {
	gained, elapsed, err := drift(t.Context(), &slow{after: []time.Duration{0, 100 * time.Millisecond}})
	if f := clock(gained, elapsed, elect.NewTiming(30*time.Second, 10*time.Second, 0)); err != nil || f.Verdict != lease.Fine {
		t.Errorf("%+v, %v", f, err)
	}
}

// seconds is a store that shows whole seconds. Each answer is two seconds later than the
// previous one.
type seconds struct {
	Store
	now int64
}

func (s *seconds) Inspect(context.Context, string) (lease.Status, error) {
	s.now += 2000
	return lease.Status{Now: s.now}, nil
}

func TestDriftOfWholeSeconds(t *testing.T) {
	if gained, _, err := drift(t.Context(), &seconds{}); err != nil || gained > 2 {
		t.Errorf("%g ms, %v; two seconds may be little more than one", gained, err)
	}
}

// Renew takes as long as the next answer.
func (s *slow) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	select {
	case <-time.After(s.after[0]):
		return l, nil
	case <-ctx.Done():
		return l, ctx.Err()
	}
}

// A slow store is reported as slow, not as one that does not answer.
func TestRenewalsOfASlowStore(t *testing.T) {
	const each, all = 30 * time.Millisecond, 400 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), all)
	defer cancel()
	took, err := renewals(ctx, &slow{after: []time.Duration{each}}, lease.Lease{}, 2*each)
	if err != nil || len(took) == 0 || took[0] < each {
		t.Errorf("%v, %v", took, err)
	}
}
