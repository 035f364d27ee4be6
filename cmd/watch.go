package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
)

func watchCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "watch --key NAME",
		Short: "Say who leads, and each change of that, until a signal",
		Long: `Say who leads, and each change of that, a line each, until a signal. Directories, etcd and Kubernetes tell it at once, other
stores are asked every second. While the store is away, who leads is unknown.

Exit status: 69 if the store is away at the start, else that of the signal.`,
		Example: "  leaderrun watch --key queue\n  leaderrun watch --key queue -o json | jq --unbuffered -r '.leader.host // \"nobody\"'",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		go endWithReader()
		return flags.withKey(func(store lease.Admin, key string) error {
			return watch(context.Background(), store, key, *output)
		})
	}
	return command
}

// change is the JSON form of a line of watch. Leader is nil if nobody leads, or if that is unknown.
type change struct {
	Time   time.Time       `json:"time"`
	Key    string          `json:"key"`
	State  lease.How       `json:"state"`
	Leader *observe.Leader `json:"leader"`
	text   string
}

const unknown lease.How = "unknown" // the store gives no answer

// endWithReader ends this process as a write to a closed pipe would: the next change may be days away.
func endWithReader() {
	if observe.ReaderGone(os.Stdout) {
		runner.DieOf(syscall.SIGPIPE)
		os.Exit(candidate.Exit{Signal: int(syscall.SIGPIPE)}.Status())
	}
}

// watch returns only an error of its first question, or of stdout.
func watch(ctx context.Context, store lease.Admin, key string, output format) error {
	var told change
	for {
		s, err := inspect(ctx, store, key)
		if err != nil && told.State == "" {
			return err
		}
		if is := changeOf(s, err); is.text != told.text {
			is.Key, told = key, is
			if err := writeAnswer(is.line(output)); err != nil {
				return err
			}
		}
		await(ctx, store, s, err)
	}
}

func changeOf(s lease.Status, err error) change {
	now := time.Now() //nolint:forbidigo // to tell when it was seen
	if err != nil {
		return change{Time: now, State: unknown, text: fmt.Sprintf("unknown: %v", &verbError{verb: "watch", err: err})}
	}
	c := s.Condition().Lasting()
	c.HandOver = false
	is := change{Time: now, State: c.Why, text: c.String()}
	if c.Why == lease.Held {
		is.Leader = &observe.Leader{Host: c.Host, Holder: s.Holder, Token: s.Token}
		if lease.ValidTime(s.Since) { // others are no times in JSON
			is.Leader.Since = time.UnixMilli(s.Since).UTC()
		}
		is.text += fmt.Sprintf(", token %d", s.Token)
	}
	return is
}

func (c change) line(output format) string {
	if output == asJSON {
		line, _ := json.Marshal(c) // cannot fail
		return string(line) + "\n"
	}
	return lease.Instant(c.Time.UnixMilli()) + "  " + observe.Printable(c.text) + "\n"
}

// await returns when somebody else may lead. The end of a lease changes nothing in the store.
func await(ctx context.Context, store lease.Admin, s lease.Status, err error) {
	const again, atMost = time.Second, time.Minute
	if err == nil {
		left := atMost
		if s.Remaining > 0 {
			left = min(left, s.Remaining)
		}
		err = store.Follow(ctx, s, left)
	}
	if err != nil {
		time.Sleep(again)
	}
}
