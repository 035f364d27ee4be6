package faultnet

import (
	"net"
	"sync"
	"time"
)

// link is one client and, once dialled, the connection to the target.
type link struct {
	mu             sync.Mutex
	client, server *net.TCPConn
	closed         bool
	done           chan struct{}
}

// attach adds the target's end. If the link has been closed meanwhile, it closes that end
// and returns false.
func (l *link) attach(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// close ends both ends, with a RST instead of a FIN if reset is set.
func (l *link) close(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c == nil {
			continue
		}
		if reset {
			_ = c.SetLinger(0) // unsent data is thrown away and a RST sent
		}
		_ = c.Close()
	}
}

// pause waits for d and reports whether the link is still open.
func (l *link) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-l.done:
		return false
	}
}
