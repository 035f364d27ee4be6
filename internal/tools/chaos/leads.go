//go:build linux

package main

import "github.com/leaderrun/leaderrun/internal/test/script"

// leads is the part of a backend that injects faults into the server that leads.
type leads struct {
	leading func() script.Server
	ready   func()        // returns when the store works
	failed  script.Server // the server with the last fault
}

func (l *leads) kill() {
	l.failed = l.leading()
	l.failed.Kill()
}

func (l *leads) start() {
	l.failed.Restart()
	l.ready()
}

func (l *leads) freeze() {
	l.failed = l.leading()
	l.failed.Stop()
}

func (l *leads) cont() {
	l.failed.Cont()
	l.ready()
}
