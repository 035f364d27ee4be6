package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

type callKey struct{}

// HTTP returns a client for requests with a context from [Call]. It opens connections by
// dial, and speaks HTTP/1.1; with TLS if config is not nil, which is called for each
// connection. It does not follow redirects.
func HTTP(dial Dial, config func(ctx context.Context) (*tls.Config, error)) *http.Client {
	dial = Dialer(dial)
	connect := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dial(callOf(ctx), network, addr)
	}
	transport := &http.Transport{DialContext: connect, MaxIdleConnsPerHost: 2, DisableCompression: true}
	if config != nil {
		transport.DialTLSContext = func(ctx context.Context, family, addr string) (net.Conn, error) {
			now, err := config(callOf(ctx))
			if err != nil {
				return nil, err
			}
			conn, err := connect(ctx, family, addr)
			if err != nil {
				return nil, err
			}
			return Secure(callOf(ctx), conn, now, addr)
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Call returns the context for a request. It ends the request's dial, too, which a
// transport would continue. If the request is a holder's, its connection is kept alive even if a
// candidate opened it.
func Call(ctx context.Context) context.Context {
	request := context.WithValue(ctx, callKey{}, ctx)
	if IsHolder(ctx) {
		request = httptrace.WithClientTrace(request, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { setKeepAlive(i.Conn) }})
	}
	return request
}

func setKeepAlive(c net.Conn) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetKeepAliveConfig(keepAlive)
	}
}

func callOf(ctx context.Context) context.Context {
	if call, ok := ctx.Value(callKey{}).(context.Context); ok {
		return call
	}
	return ctx
}

// Apart is how much, in ms, the Dates of two servers may differ: half a minute between their clocks,
// and one second because Dates have whole seconds.
const Apart = 31_000

// ErrNoDate says that an answer has no time.
var ErrNoDate = errors.New("its answer has no Date")

// ReadAll reads the body of an answer and closes it.
func ReadAll(resp *http.Response) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }()
	const most = 16 << 20 // more than a page of keys needs
	return io.ReadAll(io.LimitReader(resp.Body, most))
}

// Begin runs begin, and fails if that does not return within limit. The context of begin
// then lives on until ctx ends or end is called.
func Begin[T any](ctx context.Context, limit time.Duration, begin func(context.Context) (T, error)) (value T, end context.CancelFunc, err error) {
	ctx, end = context.WithCancel(ctx)
	late := time.AfterFunc(limit, end)
	value, err = begin(ctx)
	if !late.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		end()
	}
	return value, end, err
}
