package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// outcome is the content of the outcome file. Fields that do not apply are null: token,
// holder and held_ms without a lease; child_exit and child_signal unless the command
// ended. Of these two, one is always null. A void run has them, too.
type outcome struct {
	Outcome     string  `json:"outcome"`
	ChildExit   *int    `json:"child_exit"`
	ChildSignal *int    `json:"child_signal"`
	Token       *int64  `json:"token"`
	Key         string  `json:"key"`
	Holder      *string `json:"holder"`
	HeldMs      *int64  `json:"held_ms"`
}

func outcomeOf(c settings.Config, r campaign.Result) outcome {
	o := outcome{Outcome: string(r.Outcome), Key: c.Key}
	switch {
	case !r.Ran || r.Outcome == elect.GuardDied: // no command, or its end is unknown
	case r.Exit.Signal != 0:
		o.ChildSignal = &r.Exit.Signal
	default:
		o.ChildExit = &r.Exit.Code
	}
	if r.AcquiredAt != 0 {
		holder, held := string(r.Lease.Holder), r.Led.Milliseconds()
		o.Token, o.Holder, o.HeldMs = &r.Lease.Token, &holder, &held
	}
	return o
}

// CheckOutcomeFile checks, before anything runs, that the file can be written at the end.
// Only a regular file is accepted: anything else, such as /dev/null, would be replaced
// by one.
func CheckOutcomeFile(c *settings.Config) error {
	file := c.OutcomeFile
	if file == "" {
		return nil
	}
	wrong := func(problem, hint string) error {
		return &settings.Error{Setting: "outcome-file", Value: file, Problem: problem, Hint: hint}
	}
	info, err := os.Lstat(file)
	switch {
	case err == nil && info.IsDir():
		return wrong("is a directory", "name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return wrong("is not a regular file", "name a file that may be replaced")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return wrong("cannot be written: "+settings.Cause(err), "name a file in a directory that exists")
	}
	const writeAndSearch = 3 // W_OK | X_OK
	if err := syscall.Access(filepath.Dir(file), writeAndSearch); err != nil {
		return wrong("cannot be written into its directory: "+err.Error(), "create the directory, or make it writable")
	}
	return nil
}

// WriteOutcomeFile replaces the file atomically: a reader sees this outcome or the
// previous one.
func WriteOutcomeFile(c settings.Config, r campaign.Result) error {
	if c.OutcomeFile == "" {
		return nil
	}
	text, err := json.Marshal(outcomeOf(c, r))
	if err != nil {
		return err
	}
	const readable = 0o644 // monitoring runs as another user; the file has no secrets
	return within(outcomeLimit, func() error {
		return renameio.WriteFile(c.OutcomeFile, append(text, '\n'), readable,
			renameio.WithStaticPermissions(readable), renameio.WithTempDir(filepath.Dir(c.OutcomeFile)))
	})
}

// outcomeLimit is how long the disk may take to write the file. A leaderrun that did not end would
// keep a timer from starting its service again. The limit helps only if the kernel ends a thread that
// waits for that file system, as for NFS. Exit waits for a thread in uninterruptible sleep.
const outcomeLimit = 10 * time.Second

// within returns the error of a write, or one that says that it takes longer than limit.
func within(limit time.Duration, write func() error) error {
	written := make(chan error, 1)
	go func() { written <- write() }()
	select {
	case err := <-written:
		return err
	case <-time.After(limit):
		return fmt.Errorf("its disk has not answered for %s", limit)
	}
}
