package cmd

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/elect"
)

// outcome is the content of the outcome file. What does not apply is null:
// token, holder and held_ms when the lease was never had, child_exit and
// child_signal when no command ended, and the one of the two that did not
// happen. A void run still tells how its command ended.
type outcome struct {
	Outcome     string  `json:"outcome"`
	ChildExit   *int    `json:"child_exit"`
	ChildSignal *int    `json:"child_signal"`
	Token       *int64  `json:"token"`
	Key         string  `json:"key"`
	Holder      *string `json:"holder"`
	HeldMs      *int64  `json:"held_ms"`
}

func outcomeOf(c config.Config, r campaign.Result) outcome {
	o := outcome{Outcome: string(r.Outcome), Key: c.Key}
	switch {
	case !r.Ran || r.Outcome == elect.GuardDied: // none, or nobody knows how it ended
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

// checkOutcomeFile finds out before anything runs whether the file can be
// written at the end. Anything but a regular file is refused: it would be
// replaced, and /dev/null must not be.
func checkOutcomeFile(c *config.Config) error {
	file := c.OutcomeFile
	if file == "" {
		return nil
	}
	wrong := func(problem, cure string) error {
		return &config.Error{Setting: "outcome-file", Value: file, Problem: problem, Cure: cure}
	}
	info, err := os.Lstat(file)
	switch {
	case err == nil && info.IsDir():
		return wrong("is a directory", "name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return wrong("is not a regular file", "name a file that may be replaced")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return wrong("cannot be written: "+cause(err), "name a file in a directory that exists")
	}
	const writeAndSearch = 2 | 1 // W_OK, X_OK
	if err := syscall.Access(filepath.Dir(file), writeAndSearch); err != nil {
		return wrong("cannot be written into its directory: "+err.Error(), "create the directory, or make it writable")
	}
	return nil
}

// writeOutcomeFile replaces the file as a whole, so that a reader sees this
// outcome or the one before, never half of one.
func writeOutcomeFile(c config.Config, r campaign.Result) error {
	if c.OutcomeFile == "" {
		return nil
	}
	text, err := json.Marshal(outcomeOf(c, r))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.OutcomeFile), ".leaderrun-outcome-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	const readable = 0o644 // monitoring runs as somebody else; there are no secrets in it
	err = errors.Join(err, f.Chmod(readable), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.OutcomeFile)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
