package cmd

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func historyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "history --key NAME",
		Short: "The last 20 runs of a key",
		Long: `The last 20 runs of a key, newest first. A run that "vanished" never said how it ended: its host or leaderrun died.

Exit status: 0, or 1 if there was none, 69 the store is away.`,
		Example: "  leaderrun history --key nightly\n  leaderrun history --key nightly -o json | jq '.[0].exit'",
		Args:    noArguments,
	}
	a, output := take(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		return a.ask(true, func(ctx context.Context, c config.Config, store lease.Operator) error {
			return showHistory(ctx, store, c.Key, *output)
		})
	}
	return command
}

func showHistory(ctx context.Context, store lease.Operator, key string, output format) error {
	s, err := store.Inspect(ctx, key)
	if err != nil {
		return err
	}
	err = output.print(runViews(s.Runs), func(b *bytes.Buffer) {
		if len(s.Runs) == 0 {
			b.WriteString("no runs\n")
			return
		}
		table(b, runRows(s.Runs))
	})
	if err == nil && len(s.Runs) == 0 {
		return errNo
	}
	return err
}

// runView is a run as programs read it: a form that only grows.
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
