package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Key is the JSON form of a status. Fields are only ever added.
type Key struct {
	Key       string     `json:"key"`
	State     string     `json:"state"`
	Holder    *string    `json:"holder"`
	Host      *string    `json:"host"`
	PID       *int       `json:"pid"`
	Command   *string    `json:"command"`
	Token     int64      `json:"token"`
	Since     *time.Time `json:"since"`
	LeftMs    int64      `json:"left_ms"`
	TTLMs     int64      `json:"ttl_ms"`
	MinHold   *time.Time `json:"min_hold_until"`
	HandOver  bool       `json:"hand_over"`
	Tick      *time.Time `json:"tick"`
	Served    *time.Time `json:"served"`
	Starts    int        `json:"starts"`
	PeriodMs  int64      `json:"period_ms"`
	Value     *string    `json:"value"`
	StoreTime *time.Time `json:"store_time"`
	Runs      []Run      `json:"runs"`
	Pause     *Pause     `json:"pause"`
	// Candidates are the hosts that have come for ticks.
	Candidates []Candidate `json:"candidates"`
}

// Pause is the JSON form of a current pause.
type Pause struct {
	Since  *time.Time `json:"since"`
	Until  *time.Time `json:"until"`
	LeftMs int64      `json:"left_ms"`
	By     string     `json:"by"`
	Reason *string    `json:"reason"`
}

func pauseOf(s lease.Status) *Pause {
	if s.Pause == (lease.Pause{}) {
		return nil
	}
	return &Pause{moment(s.Pause.Since), moment(s.Pause.Until), s.Pause.Left(s.Now).Milliseconds(), s.Pause.By, orNull(s.Pause.Reason)}
}

// KeyOf returns the JSON form of a status.
func KeyOf(s lease.Status) Key {
	v := Key{
		Key: s.Key, State: string(s.How()), Token: s.Token,
		LeftMs: s.Remaining.Milliseconds(), TTLMs: s.TTL.Milliseconds(),
		HandOver: s.HandOver, Starts: s.Starts, PeriodMs: s.Period.Milliseconds(),
		Tick: moment(s.Tick), Served: moment(s.ServedTick), StoreTime: moment(s.Now),
		Runs: RunsOf(s.Runs), Pause: pauseOf(s), Candidates: candidatesOf(s),
	}
	if s.Holder != "" {
		holder, host, pid := string(s.Holder), s.Holder.Host(), pid(s.Holder)
		v.Holder, v.Host, v.PID, v.Since = &holder, &host, &pid, moment(s.Since)
	}
	if name := commandOf(s); name != "" {
		v.Command = &name
	}
	if s.MinHoldUntil > s.Now {
		v.MinHold = moment(s.MinHoldUntil)
	}
	if s.Why == lease.Foreign {
		v.Value = &s.Value
	}
	return v
}

// Run is the JSON form of a run. Fields are only ever added.
type Run struct {
	Token    int64      `json:"token"`
	Tick     *time.Time `json:"tick"`
	Start    *time.Time `json:"start"`
	End      *time.Time `json:"end"`
	Exit     *int       `json:"exit"` // null: unknown
	Outcome  *string    `json:"outcome"`
	Vanished bool       `json:"vanished"`
	Host     string     `json:"host"`
	PID      int        `json:"pid"`
	Holder   string     `json:"holder"`
}

// RunsOf returns the JSON form of runs, in the same order.
func RunsOf(runs []lease.Run) []Run {
	views := make([]Run, 0, len(runs))
	for _, r := range runs {
		v := Run{
			Token: r.Token, Tick: moment(r.Tick), Start: moment(r.Start), End: moment(r.End),
			Outcome: orNull(r.Outcome), Vanished: r.Vanished, Host: r.Host, PID: pid(r.Holder), Holder: string(r.Holder),
		}
		if !r.Vanished {
			v.Exit = &r.Exit
		}
		views = append(views, v)
	}
	return views
}

// Candidate is the JSON form of a candidate. Fields are only ever added.
type Candidate struct {
	Host    string     `json:"host"`
	First   *time.Time `json:"first"`
	Last    *time.Time `json:"last"`
	Missing bool       `json:"missing"`
}

func candidatesOf(s lease.Status) []Candidate {
	views := make([]Candidate, 0, len(s.Candidates))
	gone := missing(s)
	for _, c := range s.Candidates {
		views = append(views, Candidate{c.Host, moment(c.First), moment(c.Last), slices.Contains(gone, c)})
	}
	return views
}

// Finding is the JSON form of a finding. Fields are only ever added.
type Finding struct {
	Verdict lease.Verdict `json:"verdict"`
	Subject string        `json:"subject"`
	Text    string        `json:"text"`
	Hint    *string       `json:"hint"`
}

// FindingsOf returns the JSON form of findings, in the same order.
func FindingsOf(findings []lease.Finding) []Finding {
	views := make([]Finding, 0, len(findings))
	for _, f := range findings {
		views = append(views, Finding{f.Verdict, f.Subject, f.Text, orNull(f.Hint)})
	}
	return views
}

// orNull returns nil for a text that is not there.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// moment converts a time of the store for JSON; nil if it is unknown.
func moment(ms int64) *time.Time {
	if !lease.ValidTime(ms) {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// WriteJSON writes v as JSON. Unprintable characters are escaped, since it may be shown
// on a terminal.
func WriteJSON(b *bytes.Buffer, v any) {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // cannot fail for these types
	for _, r := range plain.String() {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	}
}
