package faultnet_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

// patience is how long to wait for something, silence how long nothing must happen.
const (
	patience = 10 * time.Second
	silence  = 100 * time.Millisecond
)

func TestPassForwardsBothWaysAndTheEnd(t *testing.T) {
	p := newEcho(t).proxy(t)
	c := dial(t, p)
	c.says(t, "one\n")
	c.says(t, strings.Repeat("x", 200<<10)+"\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		t.Errorf("after the end of the request: %q, %v; want the end of the answer", rest, err)
	}
}

func TestSwallowIsABlackHoleForOldAndNew(t *testing.T) {
	e := newEcho(t)
	p := e.proxy(t)
	old := dial(t, p)
	old.says(t, "one\n")
	set(t, p, faultnet.Swallow)
	old.writes(t, "two\n")
	fresh := dial(t, p)
	fresh.writes(t, "three\n")
	old.staysSilent(t)
	fresh.staysSilent(t)

	set(t, p, faultnet.Pass)
	old.writes(t, "four\n")
	old.staysSilent(t)
	dial(t, p).says(t, "five\n")
	if got := e.lines.Load(); got != 2 {
		t.Errorf("the target got %d lines, want only the first and the last", got)
	}
}

func TestDropRepliesLetsTheRequestThrough(t *testing.T) {
	e := newEcho(t)
	p := e.proxy(t)
	c := dial(t, p)
	c.says(t, "one\n")
	set(t, p, faultnet.DropReplies)
	c.writes(t, "two\n")
	for deadline := time.Now().Add(patience); e.lines.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the request did not arrive")
		}
	}
	c.staysSilent(t)
}

func TestRefuseClosesAllAndComesBackAtTheSameAddress(t *testing.T) {
	p := newEcho(t).proxy(t)
	old := dial(t, p)
	old.says(t, "one\n")
	set(t, p, faultnet.Refuse)
	old.ends(t, io.EOF)
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want connection refused", err)
	}
	set(t, p, faultnet.Pass)
	dial(t, p).says(t, "two\n")
}

func TestResetHitsOldAndNew(t *testing.T) {
	p := newEcho(t).proxy(t)
	old := dial(t, p)
	old.says(t, "one\n")
	set(t, p, faultnet.Reset)
	old.ends(t, syscall.ECONNRESET)
	resets(t, p)
	set(t, p, faultnet.Pass)
	dial(t, p).says(t, "two\n")
}

func TestDelayHoldsEveryAnswerBack(t *testing.T) {
	p := newEcho(t).proxy(t)
	c := dial(t, p)
	c.says(t, "one\n")
	p.Delay(silence)
	sent := time.Now()
	c.says(t, "two\n")
	if took := time.Since(sent); took < 2*silence {
		t.Errorf("the answer took %s, want at least the delay there and back, %s", took, 2*silence)
	}
}

func TestADeadTargetResets(t *testing.T) {
	e := newEcho(t)
	p := e.proxy(t)
	_ = e.Close()
	resets(t, p)
}

func TestAnUnknownModeIsRefused(t *testing.T) {
	if err := newEcho(t).proxy(t).Set("rain"); err == nil {
		t.Error("no error")
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	e := newEcho(t)
	for _, mode := range []faultnet.Mode{faultnet.Pass, faultnet.Swallow, faultnet.DropReplies, faultnet.Refuse, faultnet.Reset} {
		p := e.proxy(t)
		c := dial(t, p)
		c.says(t, "one\n")
		p.Delay(time.Hour)
		c.writes(t, "two\n")
		set(t, p, mode)
		p.Close()
		p.Close()
		if err := p.Set(faultnet.Pass); err != nil {
			t.Errorf("%s: set after close: %v", mode, err)
		}
		if stacks := goroutines(); strings.Contains(stacks, "faultnet.(*Proxy)") {
			t.Fatalf("%s: after Close:\n%s", mode, stacks)
		}
	}
}

// echo is a server that returns every line.
type echo struct {
	net.Listener
	lines atomic.Int64
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go e.answer(conn)
		}
	}()
	return e
}

func (e *echo) answer(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		e.lines.Add(1)
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

func (e *echo) proxy(t *testing.T) *faultnet.Proxy {
	t.Helper()
	p, err := faultnet.Listen(e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

type client struct {
	*net.TCPConn
	in *bufio.Reader
}

func dial(t *testing.T, p *faultnet.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *client) writes(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line); err != nil {
		t.Fatal(err)
	}
}

func (c *client) says(t *testing.T, line string) {
	t.Helper()
	c.writes(t, line)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if got, err := c.in.ReadString('\n'); err != nil || got != line {
		t.Fatalf("answer of %d bytes, %v; want the %d bytes that were sent", len(got), err, len(line))
	}
}

func (c *client) staysSilent(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(silence))
	if b, err := c.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want silence on an open connection", b, err)
	}
}

func (c *client) ends(t *testing.T, want error) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.in.ReadByte(); !errors.Is(err, want) {
		t.Errorf("the connection ended with %v, want %v", err, want)
	}
}

// resets asserts that a new connection is reset. A fast peer can do that before dial
// returns.
func resets(t *testing.T, p *faultnet.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection ended with %v, want a reset", err)
	}
}

func set(t *testing.T, p *faultnet.Proxy, m faultnet.Mode) {
	t.Helper()
	if err := p.Set(m); err != nil {
		t.Fatal(err)
	}
}

func goroutines() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
