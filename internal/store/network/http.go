package network

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

type callKey struct{}

// HTTP makes a client for requests whose context is one of [Call]. Connections are
// opened by dial, and with TLS as config says at that moment, if it is not nil; they speak
// HTTP/1.1. Redirects are answers.
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

// Call makes a context that of a request, with which a dial ends, too: by itself a
// transport goes on dialling. A holder notices that the host is gone also where it goes
// on with the connection that it opened as a candidate.
func Call(ctx context.Context) context.Context {
	request := context.WithValue(ctx, callKey{}, ctx)
	if ctx.Value(holderKey{}) != nil {
		request = httptrace.WithClientTrace(request, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { keepAlive(i.Conn) }})
	}
	return request
}

func keepAlive(c net.Conn) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetKeepAliveConfig(alive)
	}
}

func callOf(ctx context.Context) context.Context {
	if call, ok := ctx.Value(callKey{}).(context.Context); ok {
		return call
	}
	return ctx
}

// Begin runs what must begin within limit and then goes on: its context ends with ctx,
// with end, and when it has not begun in time.
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
