package cmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "status [--key NAME]",
		Short: "Who leads, since when, and how the last runs went",
		Long: `Who leads, since when, and how the last runs went: of one key, or of all keys of the prefix.

Exit status: 0 the key is taken (without --key: one of them is), 1 it is free, 69 the store is away.`,
		Example: "  leaderrun status --key nightly\n  leaderrun status -o json | jq '.[] | select(.state == \"held\")'",
		Args:    noArguments,
	}
	a, output := take(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		return a.ask(false, func(ctx context.Context, c config.Config, store lease.Operator) error {
			if c.Key != "" {
				return showStatus(ctx, store, c.Key, *output)
			}
			return listStatus(ctx, store, *output)
		})
	}
	return command
}

func showStatus(ctx context.Context, store lease.Operator, key string, output format) error {
	s, err := store.Inspect(ctx, key)
	if err != nil {
		return err
	}
	err = output.print(statusView(s), func(b *bytes.Buffer) {
		table(b, statusRows(s))
		if len(s.Runs) > 0 {
			b.WriteString("\nlast runs\n")
			table(b, runRows(s.Runs[:min(len(s.Runs), 5)]))
		}
	})
	return answered(err, s)
}

func listStatus(ctx context.Context, store lease.Operator, output format) error {
	keys, err := store.Keys(ctx)
	if err != nil {
		return err
	}
	all, damage, err := inspectAll(ctx, store, keys)
	if err != nil {
		return err
	}
	views := make([]view, 0, len(all))
	for _, s := range all {
		views = append(views, statusView(s))
	}
	err = output.print(views, func(b *bytes.Buffer) {
		rows := [][]string{{"KEY", "STATE", "HOST", "PID", "TOKEN", "SINCE", "LEFT", "COMMAND", "LAST RUN"}}
		for _, s := range all {
			rows = append(rows, listRow(s))
		}
		table(b, rows)
	})
	return answered(cmp.Or(err, damage), all...)
}

// unreadable is the state of a key of which the store has something that is not
// leaderrun's.
const unreadable lease.HeldReason = "unreadable"

// inspectAll looks at all keys. One that is damaged must not hide the others: it
// is among them as unreadable, and damage says what is wrong with the first.
func inspectAll(ctx context.Context, store lease.Operator, keys []string) (all []lease.Status, damage, err error) {
	for _, key := range keys {
		s, err := store.Inspect(ctx, key)
		var failure *lease.StoreError
		switch {
		case errors.As(err, &failure) && failure.Permanent:
			s, damage = lease.Status{Key: key, Why: unreadable}, cmp.Or(damage, err)
		case err != nil:
			return nil, nil, err
		}
		all = append(all, s)
	}
	if damage != nil && !slices.ContainsFunc(all, func(s lease.Status) bool { return s.Why != unreadable }) {
		return nil, nil, damage
	}
	return all, damage, nil
}

// answered makes the exit status of what was found.
func answered(err error, all ...lease.Status) error {
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Why != "" {
			return nil
		}
	}
	return errNo
}

// view is a status as programs read it: a form that only grows.
type view struct {
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
	Value     *string    `json:"value"`
	StoreTime *time.Time `json:"store_time"`
	Runs      []runView  `json:"runs"`
}

func statusView(s lease.Status) view {
	v := view{
		Key: s.Key, State: state(s), Token: s.Token,
		LeftMs: s.Remaining.Milliseconds(), TTLMs: s.TTL.Milliseconds(),
		HandOver: s.HandOver, Starts: s.Starts,
		Tick: moment(s.Tick), Served: moment(s.Served), StoreTime: moment(s.Now),
		Runs: runViews(s.Runs),
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

// state is one word for how a key is.
func state(s lease.Status) string {
	switch {
	case s.Why != "":
		return string(s.Why)
	case s.Holder != "":
		return "vanished"
	}
	return "free"
}

// means says what the state of a key means.
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

func statusRows(s lease.Status) [][]string {
	rows := [][]string{{"key", s.Key}, {"state", state(s) + ": " + means(s)}}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if s.Holder != "" {
		add("holder", string(s.Holder))
		if name := commandOf(s); name != "" {
			add("command", config.Shown(name))
		}
		if tellable(s.Since) {
			add("since", fmt.Sprintf("%s (%s)", instant(s.Since), span(between(s.Since, s.Now))))
		}
	}
	if s.Token != 0 {
		add("token", strconv.FormatInt(s.Token, 10))
	}
	if s.Why != "" {
		text := left(s)
		if s.TTL > 0 && s.Why != lease.HeldCooldown {
			text += " of " + config.Text(s.TTL)
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
	return rows
}

func listRow(s lease.Status) []string {
	row := []string{s.Key, state(s), nothing, nothing, nothing, nothing, nothing, nothing, nothing}
	if s.Holder != "" {
		row[2], row[3], row[5] = s.Holder.Host(), strconv.Itoa(pid(s.Holder)), instant(s.Since)
	}
	if s.Token != 0 {
		row[4] = strconv.FormatInt(s.Token, 10)
	}
	if s.Why != "" && s.Why != unreadable {
		row[6] = left(s)
	}
	if name := commandOf(s); name != "" {
		row[7] = config.Shown(name)
	}
	if len(s.Runs) > 0 {
		last := s.Runs[0]
		row[8] = ended(last)
		if !last.Vanished {
			row[8] = "exit " + row[8]
		}
		if end := max(last.Start, last.End); tellable(end) {
			row[8] += ", " + span(between(end, s.Now)) + " ago"
		}
	}
	return row
}

// left is the time until a key that is taken becomes free by itself.
func left(s lease.Status) string {
	if s.Why == lease.HeldForeign && s.Remaining <= 0 {
		return "for ever"
	}
	return span(s.Remaining)
}

// commandOf is what the holder said it runs.
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
