package cmd

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// watchFlag adds --watch[=D] to command.
func watchFlag(command *cobra.Command) *string {
	interval := command.Flags().String("watch", "", "ask again every `D`, until interrupted")
	command.Flags().Lookup("watch").NoOptDefVal = "2s"
	return interval
}

// watchInterval parses the value of --watch; 0 means ask once.
func watchInterval(value string, output format) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	every, err := settings.Duration("watch", value)
	const shortest = 100 * time.Millisecond
	switch {
	case err != nil:
		return 0, err
	case every < shortest:
		return 0, &settings.Error{Setting: "watch", Value: value, Problem: "is shorter than 100ms", Hint: "use 100ms or more: --watch=2s"}
	case output == asMetrics:
		return 0, &settings.Error{Problem: "--watch and -o openmetrics exclude each other: a collector asks by itself", Hint: "have a timer write the file"}
	}
	return every, nil
}

// watcher shows an answer repeatedly.
type watcher struct {
	redraws bool // on a terminal, where an answer replaces the one before
	write   func(string) error
	warn    func(error)
}

func newWatcher(c settings.Config) watcher {
	log := newLogger(os.Stderr, c)
	return watcher{
		redraws: rewrites(os.Stdout),
		write:   writeAnswer,
		warn:    func(err error) { log.Warn(err.Error(), about(observe.EventStoreAway, err)...) },
	}
}

// watch looks at once and then once per interval. It returns when the first look fails,
// when nothing can be written, or when ctx ends. A signal simply ends the process: there
// is nothing to clean up.
func (w watcher) watch(ctx context.Context, every time.Duration, look func() (string, error)) error {
	const erase = "\x1b[H\x1b[2J"
	next := time.NewTicker(every)
	defer next.Stop()
	for first := true; ; first = false {
		text, err := look()
		switch {
		case text == "" && first:
			return err
		case text == "": // the last answer stays
			w.warn(err)
		case w.redraws:
			text = erase + text
		case !first:
			text = "\n" + text
		}
		if err := w.write(text); err != nil {
			return err
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
