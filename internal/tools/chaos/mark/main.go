//go:build linux

// Mark is what the commands of scripts/chaos consist of: every two milliseconds
// it adds a line "token pid clock" to a file of its own, so that the files tell
// when each process of a tree lived, on the clock of the deadlines.
//
//	mark DIR CANDIDATE plain|stubborn|daemon
package main

import (
	"os"
	"strconv"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

const every = 2_000_000 // ns

func main() {
	const usage, cannot = 2, 3
	if len(os.Args) != 4 {
		os.Exit(usage)
	}
	dir, who, kind := os.Args[1], os.Args[2], os.Args[3]
	switch kind {
	case "stubborn":
		proc.Ignore(syscall.SIGTERM)
	case "daemon":
		_, _ = syscall.Setsid() // refused to the leader of a group only, which a shell's child is not
	}
	token, pid := os.Getenv("LEADERRUN_TOKEN"), strconv.Itoa(os.Getpid())
	name := dir + "/" + token + "-" + who + "-" + kind + "-" + pid
	fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		os.Exit(cannot)
	}
	line := []byte(token + " " + pid + " ")
	for n := len(line); ; proc.Sleep(every) {
		line = append(strconv.AppendInt(line[:n], proc.Now(), 10), '\n')
		_, _ = syscall.Write(fd, line) // a line that is missing is missed by the reader
	}
}
