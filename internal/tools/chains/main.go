//go:build linux

// Chains is a command whose tree is hard to kill:
//
//	chains deep N          N generations, every second one in its own session
//	chains fork N [apart]  N processes that repeatedly fork and exit; "apart": each in its own session
//	chains wide N          N processes side by side
//	chains bomb N          processes that fork whenever they can, each in its own session, for N tenths of a second
//	chains root N          a process of root, if the file is setuid root
//	chains limit N         as many processes as its user may have, for N tenths of a second
//
// It prints "ready" when the tree is complete, and ends by itself after 20 s. Its processes
// are forks without an exec, so they use only raw system calls.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/leaderrun/leaderrun/internal/proc"
)

const life = 20_000_000_000

func main() {
	n := 0
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2])
	}
	switch {
	case n > 0 && os.Args[1] == "deep":
		deep(n, proc.Now()+life)
	case n > 0 && os.Args[1] == "fork":
		forks(n, len(os.Args) > 3, proc.Now()+life)
	case n > 0 && os.Args[1] == "wide":
		wide(n, proc.Now()+life)
	case n > 0 && os.Args[1] == "bomb":
		bomb(proc.Now() + int64(n)*100_000_000)
	case n > 0 && os.Args[1] == "root":
		_ = syscall.Setuid(0)
		say()
		pause(proc.Now() + life)
	case n > 0 && os.Args[1] == "limit":
		limit(proc.Now() + int64(n)*100_000_000)
	default:
		fmt.Fprintln(os.Stderr, "usage: chains deep N | chains fork N [apart] | chains wide N | chains bomb N | chains root N | chains limit N")
		os.Exit(2)
	}
}

var ready = []byte("ready\n")

func deep(n int, end int64) {
	for left := n - 1; left > 0 && fork() == 0; left-- {
		if left%2 == 0 {
			syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		}
		if left == 1 {
			say()
		}
	}
	pause(end)
}

func forks(n int, apart bool, end int64) {
	for range n {
		if fork() != 0 {
			continue
		}
		for proc.Now() < end && fork() == 0 {
			if apart {
				syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
			}
		}
		exit()
	}
	say()
	pause(end)
}

func wide(n int, end int64) {
	for range n {
		if fork() == 0 {
			pause(end)
		}
	}
	say()
	pause(end)
}

// bomb prints "ready" when its user's process limit is reached.
func bomb(end int64) {
	for first, said := true, false; proc.Now() < end; {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		switch {
		case errno == 0 && pid == 0:
			first = false
			syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		case errno != 0 && first && !said:
			said = true
			say()
		}
	}
	exit()
}

// limit also takes processes that become free.
func limit(end int64) {
	for said := false; proc.Now() < end; {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		switch {
		case errno == 0 && pid == 0:
			pause(end)
		case errno != 0 && !said:
			said = true
			say()
		}
	}
	exit()
}

func say() {
	syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)))
}

// fork returns 0 in the child.
func fork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

func pause(end int64) {
	for proc.Now() < end {
		left := syscall.NsecToTimespec(end - proc.Now())
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&left)), 0, 0)
	}
	exit()
}

func exit() { syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0) }
