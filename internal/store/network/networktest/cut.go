package networktest

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// CutWhileIdle checks that a renewal succeeds at once after a proxy has cut its idle
// connection.
func CutWhileIdle(t *testing.T, open func(network.Dial) Store) {
	t.Helper()
	const most = 10 // connections; fewer are made
	addrs, ours, theirs := make(chan string, most), make(chan net.Conn, most), make(chan net.Conn, most)
	proxy := Serve(t, func(c net.Conn) {
		s, err := net.Dial("tcp", <-addrs)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		theirs <- c
		go func() { _, _ = io.Copy(s, c) }()
		_, _ = io.Copy(c, s)
	})
	s := open(func(ctx context.Context, network, addr string) (net.Conn, error) {
		addrs <- addr
		c, err := (&net.Dialer{}).DialContext(ctx, network, proxy)
		ours <- c
		return c, err
	})
	l := Grant(t, s, Request("k"))
	first := <-ours
	_ = (<-theirs).Close()
	must.Await(t, "the end of its connection", func() bool { return network.IsCut(first) })
	if _, err := s.Renew(Bounded(t), l); err != nil || len(ours) != 1 {
		t.Errorf("%v, %d new connections", err, len(ours))
	}
}
