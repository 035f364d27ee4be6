//go:build linux

// Mark is the program of the commands of scripts/chaos. Every two milliseconds it writes a
// line "token pid clock" to its own file. So the files show when each process of a tree
// lived, on the clock of proc.Now.
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
		_, _ = syscall.Setsid() // it only fails for the leader of a group, which a shell's child is not
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
		_, _ = syscall.Write(fd, line) // the reader notices a missing line
	}
}
