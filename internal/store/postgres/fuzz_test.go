package postgres

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// namesFiles matches the parameters that name a file: the fuzzer must not make leaderrun
// read any file.
var namesFiles = regexp.MustCompile(`(cert|key)=`)

// A URL that is accepted names a server and a database. The error for any other says why and
// what to do, in one line and without any part of the URL.
func FuzzURL(f *testing.F) {
	f.Add("postgres://cron:", "@h:5432/jobs")
	f.Add("postgres://cron@a,b:2/", "?sslmode=disable")
	f.Add("postgresql://[::1]:7000/", "#x")
	f.Add("postgres://h/jobs?application_name=", "&options=-csearch_path%3Dx")
	f.Add("postgres:///", "")
	f.Add("postgres://u:p@h:99999/", "%zz")
	leasetest.FuzzURL(f, namesFiles, parseURL, func(t *testing.T, text string, config *pgconn.Config) {
		if config.Host == "" || config.Database == "" || config.User == "" {
			t.Errorf("%q was taken as %q %q %q", text, config.Host, config.User, config.Database)
		}
	})
}

// A row that somebody else wrote is refused, or the rules can go on with it.
func FuzzRow(f *testing.F) {
	id := "host/1/" + strings.Repeat("0a", 16)
	f.Add("1", "", "0", `{"version":1,"key":"k","token":0}`)
	f.Add("9", id, "7", `{"version":1,"key":"k","token":7,"grant":{"holder":"`+id+`","ttl_ms":1000,"boot":"postgres","expires":5000}}`)
	f.Add("9", "", "9007199254740992", `{"version":1,"key":"k","token":9007199254740992,"grant":{"holder":"`+id+`","ttl_ms":1,"boot":"postgres","cooldown":true}}`)
	f.Add("-1", "x", "", `{}`)
	f.Add("1", "", "0", `{"version":1,"key":"k","runs":[{"token":-1}],"missed":{"boot":"postgres"},"starts":9223372036854775807}`)
	s, err := New(Options{URL: "postgres://cron@h/jobs", Prefix: "leaderrun"})
	must.Succeed(f, err)
	k := keeper{Store: s}
	f.Fuzz(func(t *testing.T, version, leaderID, term, state string) {
		r, err := k.parsed(keep.Row{State: rules.New("k")}, [][]byte{[]byte(version), []byte(leaderID), []byte(term), []byte(state), nil})
		if err != nil {
			if r.Version != nil {
				t.Error("what was refused has left something")
			}
			return
		}
		if r.Version.(int64) <= 0 || r.State.Check("k") != nil || leader(r.State) != leaderID {
			t.Errorf("%q %q %q %q was taken as %+v", version, leaderID, term, state, r)
		}
		before := r.State.Token
		request := lease.Request{Key: "k", Holder: lease.NewHolder("other", 1), TTL: time.Second}
		l, err := r.State.Acquire(request, rules.Instant{Boot: "postgres", Up: 1_700_000_000_000, Wall: 1_700_000_000_000})
		if err == nil && l.Token <= before {
			t.Errorf("token %d was granted after %d", l.Token, before)
		}
		if text := metadataJSON(state); text != "" && !json.Valid([]byte(text)) {
			t.Errorf("%q is shown as %q", state, text)
		}
	})
}
