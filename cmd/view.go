package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// unreadable is the state of a key of which the store has something that is not
// leaderrun's.
const unreadable lease.HeldReason = "unreadable"

// keyView is a status as JSON. Fields are only ever added.
type keyView struct {
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
	Runs      []runView  `json:"runs"`
	Pause     *pauseView `json:"pause"`
	// Candidates are the hosts that came for ticks.
	Candidates []candidateView `json:"candidates"`
}

// pauseView is a pause that goes on, as JSON.
type pauseView struct {
	Since  *time.Time `json:"since"`
	Until  *time.Time `json:"until"`
	LeftMs int64      `json:"left_ms"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
}

func pauseViewOf(s lease.Status) *pauseView {
	if s.Pause == (lease.Pause{}) {
		return nil
	}
	return &pauseView{moment(s.Pause.Since), moment(s.Pause.Until), s.Pause.Left(s.Now).Milliseconds(), s.Pause.By, s.Pause.Reason}
}

func statusView(s lease.Status) keyView {
	v := keyView{
		Key: s.Key, State: state(s), Token: s.Token,
		LeftMs: s.Remaining.Milliseconds(), TTLMs: s.TTL.Milliseconds(),
		HandOver: s.HandOver, Starts: s.Starts, PeriodMs: s.Period.Milliseconds(),
		Tick: moment(s.Tick), Served: moment(s.Served), StoreTime: moment(s.Now),
		Runs: runViews(s.Runs), Pause: pauseViewOf(s), Candidates: candidateViews(s),
	}
	if s.Holder != "" {
		holder, host, pid := string(s.Holder), s.Holder.Host(), pid(s.Holder)
		v.Holder, v.Host, v.PID, v.Since = &holder, &host, &pid, moment(s.Since)
	}
	if name := commandOf(s); name != "" {
		v.Command = &name
	}
	if s.MinHold > s.Now {
		v.MinHold = moment(s.MinHold)
	}
	if s.Why == lease.HeldForeign {
		v.Value = &s.Value
	}
	return v
}

// state is the state of a key in one word.
func state(s lease.Status) string {
	switch {
	case s.Why != "":
		return string(s.Why)
	case s.Holder != "":
		return "vanished"
	}
	return "free"
}

// listState is state, and whether the key is paused.
func listState(s lease.Status) string {
	switch {
	case s.Pause == (lease.Pause{}):
		return state(s)
	case state(s) == "free":
		return "paused"
	}
	return state(s) + ", paused"
}

// means is the state of a key in a clause.
func means(s lease.Status) string {
	switch {
	case s.Why == lease.HeldLeader && s.HandOver:
		return s.Holder.Host() + " leads and was asked to hand over"
	case s.Why == lease.HeldLeader:
		return s.Holder.Host() + " leads"
	case s.Why == lease.HeldCooldown:
		return "nobody leads, the minimum hold of the last run goes on"
	case s.Why == lease.HeldRevoked:
		return "revoked, its holder is given the time to stop"
	case s.Why == lease.HeldForeign:
		return fmt.Sprintf("the store holds %q there, which leaderrun did not write", s.Value)
	case s.Holder != "":
		return "nobody leads, the last leader never said how it ended"
	case s.Token == 0:
		return "nobody has ever led"
	}
	return "nobody leads"
}

// pausedUntil describes a pause that goes on.
func pausedUntil(s lease.Status) string {
	text := fmt.Sprintf("paused until %s (%s left) by %s", instant(s.Pause.Until), span(s.Pause.Left(s.Now)), s.Pause.By)
	if s.Pause.Reason != "" {
		text += ": " + s.Pause.Reason
	}
	return text
}

func statusRows(s lease.Status) [][]string {
	rows := [][]string{{"key", s.Key}, {"state", state(s) + ": " + means(s)}}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if s.Pause != (lease.Pause{}) {
		add("paused", strings.TrimPrefix(pausedUntil(s), "paused "))
	}
	if s.Holder != "" {
		add("holder", string(s.Holder))
		if name := commandOf(s); name != "" {
			add("command", settings.Redact(name))
		}
		if validTime(s.Since) {
			add("since", fmt.Sprintf("%s (%s)", instant(s.Since), span(between(s.Since, s.Now))))
		}
	}
	if s.Token != 0 {
		add("token", strconv.FormatInt(s.Token, 10))
	}
	if s.Why != "" {
		text := timeLeft(s)
		if s.TTL > 0 && s.Why != lease.HeldCooldown {
			text += " of " + settings.FormatDuration(s.TTL)
		}
		if s.Why == lease.HeldLeader {
			text += ", unless renewed"
		}
		add("left", text)
	}
	if s.MinHold > s.Now {
		add("min hold", "until "+instant(s.MinHold))
	}
	if s.Tick != 0 {
		tick := instant(s.Tick)
		if s.Starts > 0 {
			tick += fmt.Sprintf(", starts: %d", s.Starts)
		}
		add("tick", tick)
	}
	if s.Served != 0 {
		add("served", instant(s.Served))
	}
	if text := missingText(s); text != "" {
		add("missing", text)
	}
	return rows
}

func listRow(s lease.Status) []string {
	row := []string{s.Key, listState(s), nothing, nothing, nothing, nothing, nothing, nothing, nothing}
	if s.Holder != "" {
		row[2], row[3], row[5] = s.Holder.Host(), strconv.Itoa(pid(s.Holder)), instant(s.Since)
	}
	if s.Token != 0 {
		row[4] = strconv.FormatInt(s.Token, 10)
	}
	if s.Why != "" && s.Why != unreadable {
		row[6] = timeLeft(s)
	}
	if name := commandOf(s); name != "" {
		row[7] = settings.Redact(name)
	}
	if len(s.Runs) > 0 {
		last := s.Runs[0]
		row[8] = ended(last)
		if !last.Vanished {
			row[8] = "exit " + row[8]
		}
		if end := max(last.Start, last.End); validTime(end) {
			row[8] += ", " + span(between(end, s.Now)) + " ago"
		}
	}
	return row
}

// timeLeft is the time until a key that is taken becomes free by itself.
func timeLeft(s lease.Status) string {
	if s.Why == lease.HeldForeign && s.Remaining <= 0 {
		return "for ever"
	}
	return span(s.Remaining)
}

// commandOf is the command that the holder runs, as it says.
func commandOf(s lease.Status) string {
	var meta struct {
		Command string `json:"command"`
	}
	if json.Unmarshal([]byte(s.Meta), &meta) != nil {
		return ""
	}
	return meta.Command
}

func pid(h lease.Holder) int {
	_, rest, _ := strings.Cut(string(h), "/")
	text, _, _ := strings.Cut(rest, "/")
	n, _ := strconv.Atoi(text) // an id in its form has one
	return n
}

// holderText describes the holder of a lease, also of a released one.
func holderText(s lease.Status) string {
	id := s.Value[strings.LastIndexByte(s.Value, ':')+1:] // some stores write before it what it is
	holder := cmp.Or(s.Holder, lease.Holder(id))
	if !holder.Valid() {
		return fmt.Sprintf("%q", s.Value)
	}
	text := fmt.Sprintf("%s (pid %d", holder.Host(), pid(holder))
	if s.Why != lease.HeldRevoked { // then it is no longer the holder's
		text += fmt.Sprintf(", token %d", s.Token)
	}
	if name := commandOf(s); name != "" {
		text += ", command " + settings.Redact(name)
	}
	return text + ")"
}

// runView is a run as JSON. Fields are only ever added.
type runView struct {
	Token    int64      `json:"token"`
	Tick     *time.Time `json:"tick"`
	Start    *time.Time `json:"start"`
	End      *time.Time `json:"end"`
	Exit     *int       `json:"exit"` // null: it vanished
	Vanished bool       `json:"vanished"`
	Host     string     `json:"host"`
	PID      int        `json:"pid"`
	Holder   string     `json:"holder"`
}

func runViews(runs []lease.Run) []runView {
	views := make([]runView, 0, len(runs))
	for _, r := range runs {
		v := runView{
			Token: r.Token, Tick: moment(r.Tick), Start: moment(r.Start), End: moment(r.End),
			Vanished: r.Vanished, Host: r.Host, PID: pid(r.Holder), Holder: string(r.Holder),
		}
		if !r.Vanished {
			v.Exit = &r.Exit
		}
		views = append(views, v)
	}
	return views
}

func runRows(runs []lease.Run) [][]string {
	rows := [][]string{{"START", "TOOK", "EXIT", "HOST", "PID", "TOKEN", "TICK"}}
	for _, r := range runs {
		took := nothing
		if r.End != 0 && !r.Vanished {
			took = span(between(r.Start, r.End))
		}
		rows = append(rows, []string{
			instant(r.Start), took, ended(r), r.Host, strconv.Itoa(pid(r.Holder)), strconv.FormatInt(r.Token, 10), instant(r.Tick),
		})
	}
	return rows
}

func ended(r lease.Run) string {
	if r.Vanished {
		return "vanished"
	}
	return strconv.Itoa(r.Exit)
}
