package network

import (
	"net"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A connection that the peer has cut is not handed out. Data on an open one stays there.
func TestCutConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	var others []net.Conn
	dial := func() (net.Conn, error) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		other, err := l.Accept()
		others = append(others, other)
		return c, err
	}
	p := NewPool(func(c net.Conn) { _ = c.Close() }, IsCut)
	defer p.Close()
	first, _ := p.Take(dial)
	second, _ := p.Take(dial)
	third, _ := p.Take(dial)
	p.Put(first)
	p.Put(second)
	p.Put(third)
	_ = others[1].Close()
	for _, other := range []net.Conn{others[0], others[2]} {
		if _, err := other.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	_ = others[2].Close() // after it has said why
	for !IsCut(second) || !IsCut(third) {
		time.Sleep(time.Millisecond)
	}
	if c, err := p.Take(dial); c != first || err != nil {
		t.Errorf("%v, %v, want the one that is open", c, err)
	}
	if n, err := first.Read(make([]byte, 9)); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if c, err := p.Take(dial); c == second || err != nil {
		t.Errorf("%v, %v, want a new one", c, err)
	}
}

// A client that reads in the background, as pgconn does, does not delay the check.
func TestCutConnectionThatIsRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	read := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	looked := make(chan bool)
	go func() { looked <- IsCut(c) }()
	select {
	case cut := <-looked:
		if cut {
			t.Error("an open connection is called cut")
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for the reader")
	}
	_ = c.Close()
	<-read
}
