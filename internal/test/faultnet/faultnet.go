// Package faultnet makes TCP connections fail on purpose. It is a proxy on loopback that
// forwards to a target and can, also during connections, lose bytes, be slow, refuse and
// reset.
//
// It works on byte streams: it can lose everything from some point on, but not single
// packets. A connection that has lost a byte transfers nothing after it, since that would
// make no sense to either end.
//
// Only tests and tools may import it.
package faultnet

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Mode is what a proxy does to the bytes and connections that reach it.
type Mode string

const (
	// Pass forwards everything.
	Pass Mode = "pass"
	// Swallow is a black hole: connections stay open and new ones are accepted, but
	// nothing arrives at either end, not even the end of a stream.
	Swallow Mode = "swallow"
	// DropReplies forwards requests and drops the answers.
	DropReplies Mode = "drop-replies"
	// Refuse closes the listener and all connections, like a stopped server.
	Refuse Mode = "refuse"
	// Reset answers every connection, old and new, with a RST.
	Reset Mode = "reset"
)

// Proxy forwards connections made to Addr. Its methods may be called from
// several goroutines.
type Proxy struct {
	target, addr string

	mu       sync.Mutex
	mode     Mode
	delay    time.Duration
	listener net.Listener
	links    map[*link]bool
	closed   bool

	running sync.WaitGroup
}

// Listen starts a proxy to target ("host:port") on a free port of 127.0.0.1.
// The target is dialled anew for each connection.
func Listen(target string) (*Proxy, error) { return ListenOn("127.0.0.1", target) }

// ListenOn is Listen on another address of this host.
func ListenOn(host, target string) (*Proxy, error) {
	p := &Proxy{target: target, addr: net.JoinHostPort(host, "0"), mode: Pass, links: map[*link]bool{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.addr = p.listener.Addr().String()
	return p, nil
}

// Addr is the address where the proxy listens. It never changes.
func (p *Proxy) Addr() string { return p.addr }

// Set changes the mode, for bytes that arrive from now on. It fails for an unknown mode, and
// if after Refuse another process has taken the port.
func (p *Proxy) Set(m Mode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m {
	case Pass, Swallow, DropReplies:
	case Refuse:
		p.stopListening()
		p.cut(false)
	case Reset:
		p.cut(true)
	default:
		return fmt.Errorf("unknown mode %q", m)
	}
	p.mode = m
	if m == Refuse || p.listener != nil || p.closed {
		return nil
	}
	return p.listen()
}

// Delay holds back every piece of data for d, in both directions and from now
// on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Close closes the listener and all connections, and waits for the proxy's goroutines. It
// may be called again.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.stopListening()
	p.cut(false)
	p.mu.Unlock()
	p.running.Wait()
}

// listen, stopListening and cut are called with mu held.
func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

func (p *Proxy) cut(reset bool) {
	for l := range p.links {
		l.close(reset)
	}
	clear(p.links)
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		if link := p.admit(client.(*net.TCPConn)); link != nil {
			p.running.Go(func() { p.serve(link) })
		}
	}
}

// admit registers a new connection, so that cut finds it. If the mode has changed to one
// that cuts, it cuts the connection.
func (p *Proxy) admit(client *net.TCPConn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &link{client: client, done: make(chan struct{})}
	if p.closed || p.mode == Refuse || p.mode == Reset {
		l.close(p.mode == Reset)
		return nil
	}
	p.links[l] = true
	return l
}

func (p *Proxy) serve(l *link) {
	defer p.forget(l)
	if mode, _ := p.state(); mode == Swallow {
		p.pump(l, l.client, nil)
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		l.close(true) // the nearest thing to the target's own refusal
		return
	}
	if !l.attach(server.(*net.TCPConn)) {
		return
	}
	var up sync.WaitGroup
	up.Go(func() { p.pump(l, l.client, l.server, Swallow) })
	p.pump(l, l.server, l.client, Swallow, DropReplies)
	up.Wait()
}

// pump copies from src to dst until src ends or the link is closed. Once data arrives in
// one of the losing modes, everything after it is lost, too; without a dst everything is.
func (p *Proxy) pump(l *link, src, dst *net.TCPConn, losing ...Mode) {
	lost := dst == nil
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		mode, delay := p.state()
		lost = lost || slices.Contains(losing, mode)
		if n > 0 && !lost && l.pause(delay) {
			_, _ = dst.Write(buf[:n]) // a broken dst shows as the end of its own pump
		}
		if err != nil {
			if !lost {
				_ = dst.CloseWrite()
			}
			return
		}
	}
}

func (p *Proxy) state() (Mode, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.delay
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	l.close(false)
}
