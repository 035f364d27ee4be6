package leasetest

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

var update = flag.Bool("update", false, "write testdata/kept/1 anew: only until the form has been released")

// Backing gives access to the stored form of a key, as text.
type Backing struct {
	Open func(t *testing.T) lease.Store
	// Dump returns what is kept of key; Load puts it in the place of what is there,
	// without what has its own expiry.
	Dump func(t *testing.T, key string) string
	Load func(t *testing.T, key, kept string)
}

const keptKey = "nightly"

// Kept compares the form in which a store keeps a key with testdata/kept: what it
// writes now has the form of the file 1, and each of the files is understood. A file
// has a line with the status that its key has, and what is kept. In newer is a form that
// this program must not touch.
func Kept(t *testing.T, b Backing) {
	s := operate(t, Harness{Open: b.Open})
	status := eventful(t, s)
	first := filepath.Join("testdata", "kept", "1")
	if *update {
		text, err := json.Marshal(status)
		must.Succeed(t, err)
		must.Succeed(t, os.MkdirAll(filepath.Dir(first), 0o755))
		must.Succeed(t, os.WriteFile(first, []byte(string(text)+"\n"+b.Dump(t, keptKey)+"\n"), 0o644))
	}
	files, err := filepath.Glob(first + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, file := range files {
		text := must.Read(t, file)
		line, kept, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
		if got := b.Dump(t, keptKey); file == first && form(got) != form(kept) {
			t.Errorf("kept in another form\n%s\nwant that of %s\n%s", got, file, kept)
		}
		var want lease.Status
		must.Succeed(t, json.Unmarshal([]byte(line), &want))
		b.Load(t, keptKey, kept)
		t.Run(filepath.Base(file), func(t *testing.T) { understood(t, s, want) })
	}

	text := must.Read(t, filepath.Join(filepath.Dir(first), "newer"))
	b.Load(t, keptKey, strings.TrimSuffix(text, "\n"))
	_, err = s.Acquire(bounded(t), rival(lease.Request{Key: keptKey, TTL: time.Minute}))
	refused, ok := errors.AsType[*lease.StoreError](err)
	if !ok || !refused.Permanent || !strings.Contains(err.Error(), "newer leaderrun") || !strings.Contains(refused.Hint, "update leaderrun") {
		t.Errorf("a state of a newer form: %v", err)
	}
}

// eventful takes a key through most things that are stored, and returns its status: a tick
// is served, the next one failed, and the holder of its second start is asked to hand over
// while the key is paused.
func eventful(t *testing.T, s operated) lease.Status {
	t.Helper()
	r := lease.Request{
		Key: keptKey, Holder: "web1/812/0123456789abcdef0123456789abcdef", TTL: 30 * time.Second,
		Period: 24 * time.Hour, Exact: true, Tries: 3, Meta: `{"command":"/opt/nightly.sh"}`,
	}
	served := Harness{}.Grant(t, s, r)
	release(t, s, served, succeeded)
	r.Tick = served.Tick + r.Period.Milliseconds()
	r.Holder = "web2/813/fedcba9876543210fedcba9876543210"
	time.Sleep(2 * time.Millisecond) // one run is not of the same instant as the next
	release(t, s, Harness{}.Grant(t, s, r), failed)
	r.Holder, r.MinHold = "web3/814/00112233445566778899aabbccddeeff", 30*time.Second
	Harness{}.Grant(t, s, r)
	_, err := s.HandOver(bounded(t), keptKey)
	must.Succeed(t, err)
	_, err = s.Pause(bounded(t), keptKey, lease.MaxPause, "ann@db1", "upgrade")
	must.Succeed(t, err)
	return lasting(inspect(t, s, keptKey))
}

// lasting returns the part of a status that does not change with time.
func lasting(s lease.Status) lease.Status {
	return lease.Status{
		Key: s.Key, Holder: s.Holder, Token: s.Token, TTL: s.TTL, Since: s.Since, Tick: s.Tick, ServedTick: s.ServedTick,
		Starts: s.Starts, Tries: s.Tries, Period: s.Period, Meta: s.Meta, Runs: s.Runs, Candidates: s.Candidates,
	}
}

// form returns text without the parts that differ from run to run.
func form(text string) string {
	text = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`).ReplaceAllString(text, `"TIME"`)
	text = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,}`).ReplaceAllString(text, "HEX")
	text = regexp.MustCompile(`[A-Z2-7]{26}`).ReplaceAllString(text, "NAME")
	return regexp.MustCompile(`\d+`).ReplaceAllString(text, "0")
}

// understood checks that a store can use a stored form, whose status was want.
func understood(t *testing.T, s operated, want lease.Status) {
	if got := lasting(inspect(t, s, keptKey)); !reflect.DeepEqual(got, want) {
		t.Errorf("status\n%+v\nwant\n%+v", got, want)
	}
	if _, err := s.Resume(bounded(t), keptKey); err != nil {
		t.Fatal(err)
	}
	r := rival(lease.Request{Key: keptKey, TTL: time.Minute, Period: want.Period, Exact: true, Tick: want.ServedTick})
	denies[*lease.DoneError](t, s, r)
	r.Tick = want.Tick + want.Period.Milliseconds()
	if l := (Harness{}).Grant(t, s, r); l.Token <= want.Token {
		t.Errorf("token %d was granted after %d", l.Token, want.Token)
	}
	runs := inspect(t, s, keptKey).Runs
	if len(runs) != 3 || !runs[0].Vanished || runs[0].Token != want.Token || !reflect.DeepEqual(runs[1:], want.Runs) {
		t.Errorf("runs %+v, want one that vanished before %+v", runs, want.Runs)
	}
}
