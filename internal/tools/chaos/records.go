//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/timed"
)

// records are the calls that one run of leaderrun made, by its log (-v --log-format json). A
// step is logged before it is carried out. So the record of a call's order is older than the
// call, and the record of its answer is younger.
type records struct {
	file  string
	who   int
	child *child

	read    int64
	calls   []timed.Call
	pending *timed.Call // nil also if the verb is no call of timed, such as a wait
	success bool
	tick    int64
}

// record has the fields of a log record that concern calls.
type record struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Msg   string    `json:"msg"`
	Token int64     `json:"token"`
}

// answerTo has the answers of calls, by the events of steps.
var answerTo = map[string]timed.Answer{
	"granted": timed.Granted, "held": timed.Held, "tick done": timed.Served, "settling": timed.Refused, "paused": timed.Refused,
	"clock differs": timed.Refused, "renewed": timed.Yes, "lost": timed.Lost, "released": timed.Yes, "release failed": timed.None, "no answer": timed.None,
}

// follow reads the log from where it last ended. ahead is the wall clock's distance from the
// clock of the marks.
func (r *records) follow(ahead time.Duration) error {
	f, err := os.Open(r.file)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, r.read, 1<<30))
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	r.read += int64(len(whole))
	for line := range bytes.Lines(whole) {
		var rec record
		if json.Unmarshal(line, &rec) == nil { // the command also writes there
			r.take(rec, time.Duration(rec.Time.UnixNano())-ahead)
		}
	}
	return nil
}

func (r *records) take(rec record, at time.Duration) {
	switch rec.Event {
	case "step":
		if step := strings.Split(rec.Msg, " | "); len(step) == 4 {
			r.step(step[1], step[2], step[3], at)
		}
	case "acquired":
		if n := len(r.calls); n > 0 {
			r.calls[n-1].Token, r.calls[n-1].Tick = rec.Token, r.tick
		}
	case "reasserted":
		if n := len(r.calls); n > 0 {
			r.calls[n-1].Answer = timed.PutBack
		}
	case "skipped":
		if n := len(r.calls); n > 0 && strings.HasSuffix(rec.Msg, "has had its last try") { // nobody needs to have succeeded
			r.calls[n-1].Answer = timed.Refused
		}
	case "tick":
		if tick, err := time.Parse(time.RFC3339, strings.TrimPrefix(rec.Msg, "the tick is that of ")); err == nil {
			r.tick = tick.UnixMilli()
		}
	}
}

func (r *records) step(event, to, actions string, at time.Duration) {
	if answer, ok := answerTo[event]; ok && r.pending != nil {
		if answer != timed.None {
			r.pending.Done, r.pending.Answer = at, answer
		}
		r.end()
	}
	if event == "tree gone 0" && to == "Releasing(exited)" {
		r.success = true
	}
	for action := range strings.SplitSeq(actions, ", ") {
		verb := timed.Verb(strings.TrimSuffix(action, " anew"))
		switch verb {
		case timed.Acquire, timed.Renew, timed.Release, "wait":
			r.end() // a new request cancels the one before
			r.pending = &timed.Call{Who: r.who, Verb: verb, Sent: at, Success: verb == timed.Release && r.success}
		}
	}
}

// end adds the pending call to the others.
func (r *records) end() {
	if r.pending != nil && r.pending.Verb != "wait" {
		r.calls = append(r.calls, *r.pending)
	}
	r.pending = nil
}

// all returns the calls so far, including one without an answer yet, and the release that the guard
// of a dead leaderrun makes if it lives itself, and logs nowhere.
func (r *records) all() []timed.Call {
	all := slices.Clip(r.calls)
	if r.pending != nil && r.pending.Verb != "wait" {
		all = append(all, *r.pending)
	}
	if killed := r.child.killed.Load(); killed != 0 {
		all = append(all, timed.Call{Who: r.who, Verb: timed.Release, Sent: time.Duration(killed)})
	}
	return all
}

// breaks maps a broken rule to the violation that it counts as.
var breaks = map[timed.Rule]violation{
	timed.Early: early, timed.Stale: stale, timed.Order: disorder, timed.Outlive: late, timed.Twice: twice, timed.Nobody: nobody, timed.Starve: starved,
}

// judgeCalls checks all calls since the last rounds with package timed.
func (w *worker) judgeCalls(trees []tree, calm, delay time.Duration) (*timed.History, error) {
	terms := timed.Terms{TTL: w.ttl, From: clock() - 10*w.ttl, Apart: w.world.apart, Forgot: w.forgot, Back: w.back, Lost: w.lost, Calm: calm, Late: delay}
	asked, err := w.history(terms, &w.records)
	if err != nil {
		return nil, err
	}
	var runs []timed.Run
	for _, t := range trees {
		runs = append(runs, timed.Run{Token: t.token, Last: t.last})
	}
	terms.Period, terms.Round = 2*w.ttl, lease.Round(2*w.ttl, false)-time.Second.Milliseconds() // they are logged by the second
	jobs, err := w.history(terms, &w.jobs)
	if err != nil {
		return nil, err
	}
	for _, wrong := range append(asked.Judge(runs), jobs.Judge(nil)...) {
		if !w.reported[wrong] {
			w.reported[wrong] = true
			w.violated(breaks[wrong.Rule], "%s", wrong.Text)
		}
	}
	return asked, nil
}

// history reads the candidates' calls so far, and drops the candidates that ended long ago.
func (w *worker) history(terms timed.Terms, of *[]*records) (*timed.History, error) {
	ahead := time.Duration(time.Now().UnixNano()) - clock()
	var calls []timed.Call
	var kept []*records
	for _, r := range *of {
		n, ended := len(r.calls), r.child.ended() // before its last records are read
		if err := r.follow(ahead); err != nil {
			return nil, err
		}
		w.found.calls += len(r.calls) - n
		calls = append(calls, r.all()...)
		if !ended || len(r.calls) > 0 && r.calls[len(r.calls)-1].Sent > clock()-20*w.ttl {
			kept = append(kept, r)
		}
	}
	*of = kept
	return timed.New(terms, calls), nil
}
