package networktest

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// CutWhileIdle checks that a renewal succeeds at once where a proxy has cut its connection
// while nobody used it.
func CutWhileIdle(t *testing.T, open func(network.Dial) Store) {
	t.Helper()
	var server string
	var ours, theirs []net.Conn
	proxy := Serve(t, func(c net.Conn) {
		s, err := net.Dial("tcp", server)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		theirs = append(theirs, c)
		go func() { _, _ = io.Copy(s, c) }()
		_, _ = io.Copy(c, s)
	})
	s := open(func(ctx context.Context, network, addr string) (net.Conn, error) {
		server = addr
		c, err := (&net.Dialer{}).DialContext(ctx, network, proxy)
		ours = append(ours, c)
		return c, err
	})
	l := Grant(t, s, Request("k"))
	_ = theirs[0].Close()
	Await(t, "the end of its connection", func() bool { return network.IsCut(ours[0], true) })
	if _, err := s.Renew(Bounded(t), l); err != nil || len(ours) != 2 {
		t.Errorf("%v, %d connections", err, len(ours))
	}
}
