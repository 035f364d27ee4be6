package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// Unreadable is the state of a key whose value in the store was not written by leaderrun.
const Unreadable lease.HeldReason = "unreadable"

// state returns the state of a key in one word.
func state(s lease.Status) string {
	switch {
	case s.Why != "":
		return string(s.Why)
	case s.Holder != "":
		return "vanished"
	}
	return "free"
}

// listState returns the state and whether the key is paused.
func listState(s lease.Status) string {
	switch {
	case s.Pause == (lease.Pause{}):
		return state(s)
	case state(s) == "free":
		return "paused"
	}
	return state(s) + ", paused"
}

// InWords returns the state of a key as a clause.
func InWords(s lease.Status) string {
	switch {
	case s.Why == lease.HeldLeader && s.HandOver:
		return s.Holder.Host() + " leads and was asked to hand over"
	case s.Why == lease.HeldLeader:
		return s.Holder.Host() + " leads"
	case s.Why == lease.HeldCooldown:
		return "nobody leads, the minimum hold of the last run goes on"
	case s.Why == lease.HeldRevoked:
		return "the lease was taken from its holder, which may still be stopping its command"
	case s.Why == lease.HeldForeign:
		return fmt.Sprintf("the store holds %q there, which leaderrun did not write", s.Value)
	case s.Holder != "":
		return "nobody leads, the last leader did not report its end"
	case s.Token == 0:
		return "nobody has ever led"
	}
	return "nobody leads"
}

// Paused describes a current pause.
func Paused(s lease.Status) string {
	text := fmt.Sprintf("paused until %s (%s left) by %s", Instant(s.Pause.Until), Span(s.Pause.Left(s.Now)), s.Pause.By)
	if s.Pause.Reason != "" {
		text += ": " + s.Pause.Reason
	}
	return text
}

// WriteKey writes the status of a key as text.
func WriteKey(b *bytes.Buffer, s lease.Status) {
	const runs = 5
	WriteTable(b, keyRows(s))
	if len(s.Runs) > 0 {
		b.WriteString("\nlast runs\n")
		WriteRuns(b, s.Runs[:min(len(s.Runs), runs)])
	}
	if len(s.Candidates) > 0 {
		b.WriteString("\ncandidates\n")
		WriteTable(b, candidateRows(s))
	}
}

// WriteKeys writes a table with a line for each key, which fits a terminal unless it is wide.
func WriteKeys(b *bytes.Buffer, all []lease.Status, wide bool) {
	if len(all) == 0 {
		b.WriteString("no keys\n")
		return
	}
	const gap = 2
	head := []string{"KEY", "STATE", "HOST", "SINCE", "WELL", "NEXT DUE", "LAST EXIT"}
	if wide {
		head = append(head, "LEFT", "PID", "TOKEN", "COMMAND")
	}
	rows := [][]string{head}
	for _, s := range all {
		row := listRow(s)
		if wide {
			row = append(row, wideRow(s)...)
		}
		for i := range row {
			row[i] = cmp.Or(row[i], Nothing)
		}
		rows = append(rows, row)
	}
	writeTable(b, rows, gap)
}

func keyRows(s lease.Status) [][]string {
	rows := [][]string{{"key", s.Key}, {"state", state(s) + ": " + InWords(s)}}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if s.Pause != (lease.Pause{}) {
		add("paused", strings.TrimPrefix(Paused(s), "paused "))
	}
	if s.Holder != "" {
		add("holder", fmt.Sprintf("%s (pid %d)", s.Holder.Host(), pid(s.Holder)))
		if name := commandOf(s); name != "" {
			add("command", settings.Redact(name))
		}
		if validTime(s.Since) {
			add("since", fmt.Sprintf("%s (%s)", Instant(s.Since), Span(between(s.Since, s.Now))))
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
	if s.MinHoldUntil > s.Now {
		add("min hold", "until "+Instant(s.MinHoldUntil))
	}
	if s.Tick != 0 {
		tick := Instant(s.Tick)
		if s.Starts > 0 {
			tick += fmt.Sprintf(", starts: %d", s.Starts)
		}
		add("tick", tick)
	}
	if s.ServedTick != 0 {
		add("served", Instant(s.ServedTick))
	}
	if text := missingText(s); text != "" {
		add("missing", text)
	}
	return rows
}

func listRow(s lease.Status) []string {
	var host, since, due, lastRun string
	if s.Holder != "" {
		host, since = s.Holder.Host(), shortInstant(s.Since, s.Now)
	}
	well := "no"
	if s.Why != Unreadable && Diagnose(s).Well {
		well = "yes"
	}
	if s.Period > 0 && validTime(s.ServedTick) {
		due = shortInstant(s.ServedTick+s.Period.Milliseconds(), s.Now)
	}
	if len(s.Runs) > 0 {
		last := s.Runs[0]
		lastRun = ended(last)
		if end := max(last.Start, last.End); validTime(end) {
			lastRun += " at " + shortInstant(end, s.Now)
		}
	}
	return []string{s.Key, listState(s), host, since, well, due, lastRun}
}

func wideRow(s lease.Status) []string {
	var left, id, token string
	if s.Why != "" && s.Why != Unreadable {
		left = timeLeft(s)
	}
	if s.Holder != "" {
		id = strconv.Itoa(pid(s.Holder))
	}
	if s.Token != 0 {
		token = strconv.FormatInt(s.Token, 10)
	}
	return []string{left, id, token, settings.Redact(commandOf(s))}
}

// timeLeft returns the time until a taken key becomes free by itself.
func timeLeft(s lease.Status) string {
	if s.Why == lease.HeldForeign && s.Remaining <= 0 {
		return "for ever"
	}
	return Span(s.Remaining)
}

// commandOf returns the holder's command, as the holder reported it.
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
	n, _ := strconv.Atoi(text) // a valid id has one
	return n
}

// Holder describes the holder of a lease, or the last holder of a released one.
func Holder(s lease.Status) string {
	id := s.Value[strings.LastIndexByte(s.Value, ':')+1:] // some stores prefix it with a kind
	holder := cmp.Or(s.Holder, lease.Holder(id))
	if !holder.Valid() {
		return fmt.Sprintf("%q", s.Value)
	}
	text := fmt.Sprintf("%s (pid %d", holder.Host(), pid(holder))
	if s.Why != lease.HeldRevoked { // a revoked lease is no longer the holder's
		text += fmt.Sprintf(", token %d", s.Token)
	}
	if name := commandOf(s); name != "" {
		text += ", command " + settings.Redact(name)
	}
	return text + ")"
}
