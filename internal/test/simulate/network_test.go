package simulate

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// trouble is what the network between one host and the store does for a while.
type trouble int

const (
	refusing   trouble = iota // nothing listens
	blackHole                 // packets vanish, in both directions
	halfOpen                  // packets of existing connections vanish, new connections work
	losing                    // requests arrive, but some answers do not
	resetting                 // answers are cut in the middle
	slow                      // requests and answers take up to two TTLs
	complaints                // the server answers with an error, or with nonsense
	repeating                 // requests arrive again, later
	troubles
)

func (t trouble) String() string {
	return [...]string{"refuses", "black hole", "half open", "loses replies", "resets", "slow", "complains", "repeats"}[t]
}

// complaint has errors that a server sends instead of an answer. The last ones are not of a
// Redis, or not of leaderrun's scripts.
var complaint = []string{
	"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
	"-LOADING Redis is loading the dataset in memory\r\n",
	"-READONLY You can't write against a read only replica.\r\n",
	"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
	"-CLUSTERDOWN The cluster is down\r\n",
	"+OK\r\n",
	"$-1\r\n",
	":1\r\n",
	"*0\r\n",
	"*3\r\n:1\r\n:-5\r\n$3\r\nabc\r\n",
	"*1\r\n:1\r\n",
	"HTTP/1.1 400 Bad Request\r\n\r\n",
}

// conn is a process's end of a connection. A stopped process neither sends nor receives, and a
// dead one has no connections.
type conn struct {
	net.Conn
	p *process
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.awake()
	if err != nil {
		c.p.dither()
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.p.awake()
	return c.Conn.Write(b)
}

// Close of a process that stands still comes later. Its caller may hold a lock, for which no
// goroutine of a bubble may wait while time has to pass.
func (c *conn) Close() error {
	if !c.p.isFrozen() {
		return c.Conn.Close()
	}
	go func() {
		c.p.awake()
		_ = c.Conn.Close()
	}()
	return nil
}

// link is the network's part of one connection. After it has lost something it transfers
// nothing more.
type link struct {
	p         *process
	rng       *dice
	near, far net.Conn
	requests  chan []byte
	answers   chan []byte
	over      chan struct{}
	cut       sync.Once
	hole      atomic.Bool
}

func (p *process) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.awake()
	h := p.host
	if p.isDead() {
		return nil, net.ErrClosed
	}
	if h.suffers(blackHole) {
		h.w.faulty()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	rng := h.w.rng() // its own: other attempts of this process dial at the same time
	time.Sleep(h.w.latency(rng))
	if h.suffers(refusing) || h.w.isDown() {
		h.missed()
		h.w.faulty()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	far, err := h.w.store.dial()
	if err != nil {
		return nil, err
	}
	near, client := net.Pipe()
	l := &link{
		p: p, rng: rng, near: near, far: far,
		requests: make(chan []byte), answers: make(chan []byte), over: make(chan struct{}),
	}
	if !p.adopt(l) {
		l.close()
		return nil, net.ErrClosed
	}
	go l.pump(near, l.requests)
	go l.pump(far, l.answers)
	go l.serve()
	return &conn{client, p}, nil
}

// hasDeadLink reports whether the process still has a connection that has lost something. It
// cannot be called on that.
func (p *process) hasDeadLink() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.links, func(l *link) bool {
		select {
		case <-l.over:
			return false
		default:
			return l.hole.Load()
		}
	})
}

// pump reads from one end until it is closed.
func (l *link) pump(from net.Conn, to chan<- []byte) {
	defer close(to)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case to <- slices.Clone(buf[:n]):
		case <-l.over:
			return
		}
	}
}

func (l *link) close() {
	l.cut.Do(func() {
		_ = l.near.Close()
		_ = l.far.Close()
	})
}

// serve transfers requests to the store and answers back, one at a time.
func (l *link) serve() {
	defer close(l.over)
	defer l.close()
	for request := range l.requests {
		if l.hole.Load() || !l.carry(request) {
			l.hole.Store(true)
		}
	}
}

// carry transfers one request and its answer, unless the network loses them.
func (l *link) carry(request []byte) (whole bool) {
	h, w := l.p.host, l.p.host.w
	if h.suffers(blackHole) || h.suffers(halfOpen) && l.rng.IntN(2) == 0 {
		w.faulty()
		return false
	}
	time.Sleep(w.latency(l.rng))
	if h.suffers(slow) {
		time.Sleep(w.upTo(l.rng, h.slowness(l.rng)))
		w.faulty()
	}
	if h.suffers(complaints) && l.rng.IntN(4) != 0 {
		w.faulty()
		return l.deliver([]byte(complaint[l.rng.IntN(len(complaint))]))
	}
	answer, ok := l.exchange(request)
	if !ok {
		return false
	}
	if w.store.writes(request) && h.suffers(repeating) {
		l.repeat(request)
	}
	if h.suffers(slow) && l.rng.IntN(2) == 0 {
		time.Sleep(w.upTo(l.rng, h.slowness(l.rng)))
		w.faulty()
	}
	time.Sleep(w.latency(l.rng))
	switch {
	case h.suffers(blackHole), h.suffers(losing) && l.rng.IntN(2) == 0:
		w.faulty()
		w.note("%s: an answer is lost", l.p)
		return false
	case h.suffers(resetting) && l.rng.IntN(2) == 0:
		w.faulty()
		w.note("%s: reset in an answer", l.p)
		l.deliver(answer[:len(answer)/2])
		l.close()
		return false
	}
	return l.deliver(answer)
}

// repeat makes a request arrive again, after others.
func (l *link) repeat(request []byte) {
	w := l.p.host.w
	again := &link{p: l.p, rng: w.rng(), answers: make(chan []byte), over: make(chan struct{})}
	far, err := w.store.dial()
	if err != nil {
		return
	}
	again.far = far
	go again.pump(far, again.answers)
	w.faults.Go(func() {
		defer func() { _ = far.Close() }()
		defer close(again.over)
		time.Sleep(w.upTo(again.rng, 2*l.p.host.ttl))
		w.note("%s: a request comes once more", l.p)
		again.exchange(request)
		w.faulty()
	})
}

func (l *link) deliver(answer []byte) bool {
	_, err := l.near.Write(answer)
	return err == nil
}

// exchange sends a request to the store and waits for the answer. While a request may change
// anything no other one does, so that the checker sees what each has done. It arrives even if
// its sender has given up or died meanwhile.
func (l *link) exchange(request []byte) (answer []byte, ok bool) {
	w := l.p.host.w
	if w.store.waits(request) {
		w.setClock()
		if _, err := l.far.Write(request); err != nil {
			return nil, false
		}
		select {
		case answer, ok = <-l.answers:
		case <-l.requests: // the client has closed it
		}
		return answer, ok
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.isDown() {
		return nil, false
	}
	before := w.look()
	if _, err := l.far.Write(request); err != nil {
		return nil, false
	}
	answer, ok = <-l.answers
	for ok && !isWhole(answer) { // the server flushes long answers in pieces
		var more []byte
		more, ok = <-l.answers
		answer = append(answer, more...)
	}
	w.judge(l.p, request, before, w.look())
	l.p.spring()
	return answer, ok
}

// isWhole reports whether an answer is complete: those of Redis have lengths, those of a table are
// written at once.
func isWhole(answer []byte) bool {
	if bytes.HasPrefix(answer, []byte("{")) {
		return true
	}
	_, whole := afterValue(answer)
	return whole
}

// afterValue returns what follows the first value of RESP2, if that is complete.
func afterValue(text []byte) (rest []byte, whole bool) {
	line, rest, whole := bytes.Cut(text, []byte("\r\n"))
	if !whole || len(line) == 0 {
		return nil, false
	}
	n, _ := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '$':
		if n < 0 {
			return rest, true
		}
		if len(rest) < n+2 {
			return nil, false
		}
		return rest[n+2:], true
	case '*':
		for range n {
			if rest, whole = afterValue(rest); !whole {
				return nil, false
			}
		}
	}
	return rest, true
}
