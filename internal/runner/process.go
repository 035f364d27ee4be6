package runner

import (
	"os"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// process is a child of this one. It can be signalled from any goroutine and is
// never signalled once it is reaped.
//
// It is no os.Process, whose first use in a program forks a child only to find
// out what the kernel can do: a good part of a millisecond at every start.
type process struct {
	pid    int
	mu     sync.Mutex
	reaped bool
}

// startProcess runs the program at path with this process's standard files and
// the pipes as its descriptors 0, 1, 2, 3, … It gets a process group of its own:
// what a terminal or a kill sends to the caller's group does not reach it.
func startProcess(path, name string, env []string, pipes ...*os.File) (*process, error) {
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	for _, f := range pipes {
		fd := f.Fd()
		_ = syscall.SetNonblock(int(fd), false) // the child reads and writes without a poller
		attr.Files = append(attr.Files, fd)
	}
	pid, err := syscall.ForkExec(path, []string{name}, attr)
	return &process{pid: pid}, err
}

func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(p.pid, sig) // it may have ended: then it is a zombie still
	}
}

// wait returns how the process ended, and reaps it only while nobody signals.
func (p *process) wait() syscall.WaitStatus {
	proc.AwaitEnd(p.pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != syscall.EINTR {
			p.reaped = true
			return status
		}
	}
}
