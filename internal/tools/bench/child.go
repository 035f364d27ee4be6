//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// child is a process that the benchmark has started.
type child struct {
	cmd  *exec.Cmd
	over chan struct{} // closed when it is reaped
	err  error         // how it ended
	// letGo ends a holder's command when it is closed.
	letGo io.Closer
}

func launch(cmd *exec.Cmd) (*child, error) {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, over: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.over)
	}()
	return c, nil
}

// hold runs args with a command that goes on until letGo, and returns once it runs.
func hold(args []string) (*child, error) {
	cmd := exec.Command(args[0], append(args[1:len(args):len(args)], "cat")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, echo, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	defer echo.Close()
	cmd.Stdout = echo
	c, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	c.letGo = in
	_ = out.SetReadDeadline(time.Now().Add(patience))
	if _, err = in.Write([]byte("x")); err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		end(c)
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// end stops children and returns when they are reaped. It kills a child that does not stop.
func end(children ...*child) {
	for _, c := range children {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, c := range children {
		select {
		case <-c.over:
		case <-time.After(patience):
			_ = c.cmd.Process.Kill()
			<-c.over
		}
	}
}

// awaitEnd waits for a child that has to end by itself, without an error.
func (c *child) awaitEnd() error {
	select {
	case <-c.over:
	case <-time.After(patience):
		return fmt.Errorf("%s did not end in %s", c.cmd, patience)
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w", c.cmd, c.err)
	}
	return nil
}
