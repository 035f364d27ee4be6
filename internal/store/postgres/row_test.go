//go:build linux

package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The columns have what people expect in them.
func TestColumns(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	type row struct {
		Leader    string          `json:"leader_id"`
		Term      int64           `json:"term"`
		Heartbeat *time.Time      `json:"last_heartbeat"`
		Metadata  json.RawMessage `json:"metadata"`
	}
	look := func() (r row) {
		t.Helper()
		text := b.one(t, "SELECT to_jsonb(l) FROM leaderrun_leases l WHERE prefix = 'leaderrun' AND service_name = 'k'")
		must.Succeed(t, json.Unmarshal([]byte(text), &r))
		return r
	}
	r := request("k")
	r.Meta, r.MinHold = `{"command": "job"}`, time.Minute
	l := grant(t, s, r)
	granted := look()
	if granted.Leader != string(r.Holder) || granted.Term != l.Token || granted.Heartbeat.UnixMilli() != l.AcquiredAt || string(granted.Metadata) != r.Meta {
		t.Errorf("granted %+v, the table says %+v", l, granted)
	}
	time.Sleep(2 * time.Millisecond) // the clock's resolution
	denied(t, s, request("k"))
	if denied := look(); !denied.Heartbeat.Equal(*granted.Heartbeat) {
		t.Error("a denial is a heartbeat")
	}
	renew(t, s, l)
	renewed := look()
	if !renewed.Heartbeat.After(*granted.Heartbeat) || renewed.Leader != granted.Leader || renewed.Term != granted.Term {
		t.Errorf("%+v became %+v by a renewal", granted, renewed)
	}
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true})) // the minimum hold goes on
	released := look()
	if released.Leader != "" || released.Term != l.Token || !released.Heartbeat.Equal(*renewed.Heartbeat) || string(released.Metadata) != "null" {
		t.Errorf("%+v became %+v by a release", renewed, released)
	}
	if n := b.one(t, "SELECT count(*) FROM leaderrun_leases"); n != "1" {
		t.Errorf("%s rows", n)
	}
}

func TestPrefixesDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for _, prefix := range []string{"a", "b"} {
		s, err := New(Options{URL: b.URL, Prefix: prefix})
		must.Succeed(t, err)
		t.Cleanup(func() { _ = s.Close() })
		grant(t, s, request("k"))
	}
}

// Not all JSON of Go is JSON for Postgres.
func TestMetadata(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	for i, meta := range []string{
		`{"a": 12345678901234567890}`, `"\u0000"`, `"\ud800"`, `1e999999`, `{"a":1}{`, `no JSON`, "\xff", `"\\u0000"`, `[]`, `''`,
		`{"a": ` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, `"` + strings.Repeat("x", 4094) + `"`,
	} {
		r := request(string(rune('a' + i)))
		r.Meta = meta
		l := grant(t, s, r)
		if again, err := s.Renew(bounded(t), l); err != nil || again.Meta != strings.ToValidUTF8(meta, "\uFFFD") {
			t.Errorf("%.40q: renewed as %.40q, %v", meta, again.Meta, err)
		}
	}
}
