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

// listState returns how the key is and whether it is paused.
func listState(s lease.Status) string {
	how, paused := string(s.How()), string(s.Paused().Why)
	if how == string(lease.Free) && paused != "" {
		return paused
	}
	return strings.TrimSuffix(how+", "+paused, ", ")
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
	rows := [][]string{{"key", s.Key}, {"state", fmt.Sprintf("%s: %s", s.How(), s.Condition().Lasting())}}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if p := s.Paused(); p.Why != "" {
		add("paused", strings.TrimPrefix(p.String(), "paused "))
	}
	if s.Holder != "" {
		add("holder", fmt.Sprintf("%s (pid %d)", s.Holder.Host(), pid(s.Holder)))
		if name := commandOf(s); name != "" {
			add("command", settings.Redact(name))
		}
		if lease.ValidTime(s.Since) {
			add("since", fmt.Sprintf("%s (%s)", lease.Instant(s.Since), lease.Span(between(s.Since, s.Now))))
		}
	}
	if s.Token != 0 {
		add("token", strconv.FormatInt(s.Token, 10))
	}
	if s.Why != "" {
		text := timeLeft(s)
		if s.TTL > 0 && s.Why != lease.Cooldown {
			text += " of " + lease.FormatDuration(s.TTL)
		}
		if s.Why == lease.Held {
			text += ", unless renewed"
		}
		add("left", text)
	}
	if s.MinHoldUntil > s.Now {
		add("min hold", "until "+lease.Instant(s.MinHoldUntil))
	}
	if s.Tick != 0 {
		tick := lease.Instant(s.Tick)
		if s.Starts > 0 {
			tick += fmt.Sprintf(", starts: %d", s.Starts)
		}
		add("tick", tick)
	}
	if s.ServedTick != 0 {
		add("served", lease.Instant(s.ServedTick))
	}
	if text := missingText(s); text != "" {
		add("missing", text)
	}
	return rows
}

func listRow(s lease.Status) []string {
	var host, since, due, lastRun string
	if s.Holder != "" {
		host, since = s.Holder.Host(), lease.ShortInstant(s.Since, s.Now)
	}
	well := "no"
	if s.Why != lease.Unreadable && Diagnose(s).Well {
		well = "yes"
	}
	if s.Period > 0 && lease.ValidTime(s.ServedTick) {
		due = lease.ShortInstant(s.ServedTick+s.Period.Milliseconds(), s.Now)
	}
	if len(s.Runs) > 0 {
		last := s.Runs[0]
		lastRun = ended(last)
		if end := max(last.Start, last.End); lease.ValidTime(end) {
			lastRun += " at " + lease.ShortInstant(end, s.Now)
		}
	}
	return []string{s.Key, listState(s), host, since, well, due, lastRun}
}

func wideRow(s lease.Status) []string {
	var left, id, token string
	if s.Why != "" && s.Why != lease.Unreadable {
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
	if s.Why == lease.Foreign && s.Remaining <= 0 {
		return "for ever"
	}
	return lease.Span(s.Remaining)
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
	holder := cmp.Or(s.Holder, s.Condition().Holder())
	if !holder.Valid() {
		return fmt.Sprintf("%q", s.Value)
	}
	text := fmt.Sprintf("%s (pid %d", holder.Host(), pid(holder))
	if s.Why != lease.Revoked { // a revoked lease is no longer the holder's
		text += fmt.Sprintf(", token %d", s.Token)
	}
	if name := commandOf(s); name != "" {
		text += ", command " + settings.Redact(name)
	}
	return text + ")"
}
