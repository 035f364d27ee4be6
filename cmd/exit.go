package cmd

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// leaderrun's own statuses. Any other status is the command's, the skip code, or
// 128+n for signal n: [candidate.Exit].
const (
	exitNo            = 1   // a verb's answer is no
	exitUnavailable   = 69  // EX_UNAVAILABLE of sysexits.h: the store is away or refuses, nothing ran
	exitWaitRanOut    = 75  // EX_TEMPFAIL: somebody else led for all of --wait, nothing ran
	exitVoid          = 76  // EX_PROTOCOL: the lease was lost or expired, the command's result is void
	exitMaxRuntime    = 124 // as timeout(1): ran too long
	exitUsage         = 125 // as timeout(1) and env(1): usage, configuration, or leaderrun itself failed
	exitCannotExecute = 126 // as a shell: found, but not executable
	exitNotFound      = 127 // as a shell: COMMAND does not exist
)

func runStatus(result elect.State, c settings.Config) int {
	switch result.Outcome {
	case candidate.Lost, candidate.Expired: // this always wins
		return exitVoid
	case candidate.Exited, candidate.LeftBehind, candidate.Detached, candidate.Ordered, candidate.HandedOver, candidate.Unfit:
		return exitOf(result).Status()
	case candidate.Denied, candidate.Skipped, candidate.Paused, candidate.Ineligible:
		if ranOut(result, c) {
			return exitWaitRanOut
		}
		return c.SkipExitCode
	case candidate.Unavailable:
		return exitUnavailable
	case candidate.MaxRuntime:
		return exitMaxRuntime
	case candidate.NotStarted:
		return notStarted(result.Err)
	}
	return exitUsage // unchecked, or the guard died and nobody knows how the command ended
}

// exitOf returns how a run ended whose status is not leaderrun's own: as its command did, or as a
// candidate without a handler would.
func exitOf(result elect.State) candidate.Exit {
	if result.Outcome == candidate.Ordered && !result.Ran {
		return candidate.Exit{Signal: result.Orders.Signal}
	}
	return result.Exit
}

// diesOf returns the signal of which leaderrun dies; 0 if it exits. A shell's loop ends at Ctrl-C
// only if it sees that death, and systemd takes a death by SIGTERM for a clean stop.
func diesOf(result elect.State) syscall.Signal {
	switch result.Outcome {
	case candidate.Exited, candidate.LeftBehind, candidate.Detached, candidate.Ordered, candidate.HandedOver, candidate.Unfit:
	default: // the status is leaderrun's own
		return 0
	}
	switch sig := syscall.Signal(exitOf(result).Signal); sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2:
		return sig
	}
	return 0
}

// ranOut reports whether --wait ran out and has a status of its own. With -E or
// a tick that is a skip: another host runs the job.
func ranOut(result elect.State, c settings.Config) bool {
	return (result.Outcome == candidate.Denied || result.Outcome == candidate.Ineligible) && c.Wait > 0 && !c.SkipExitCodeNamed && !c.HasTicks()
}

// notStarted returns the status for a command that could not be started: it was not
// found, cannot be executed, or the system could not start a process.
func notStarted(err error) int {
	var errno syscall.Errno
	switch {
	case errors.Is(err, runner.ErrGuard), !errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist):
		return exitUsage
	case errors.Is(err, fs.ErrNotExist), errno == syscall.ENOTDIR:
		return exitNotFound
	case errno == syscall.EAGAIN, errno == syscall.ENOMEM, errno == syscall.EMFILE, errno == syscall.ENFILE, errno == syscall.ETIMEDOUT:
		return exitUsage
	}
	return exitCannotExecute
}

func verbStatus(err error) int {
	var address *addressError
	var store *lease.StoreError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return exitNo
	case errors.As(err, &store) && !errors.As(err, &address):
		return exitUnavailable
	}
	return exitUsage
}
