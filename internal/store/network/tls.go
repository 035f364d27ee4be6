package network

import (
	"context"
	"crypto/tls"
	"net"
)

// HandshakeError is an error of a TLS handshake.
type HandshakeError struct{ error }

func (e HandshakeError) Unwrap() error { return e.error }

// Secure returns c with TLS, or closes it. The handshake ends with ctx.
func Secure(ctx context.Context, c net.Conn, config *tls.Config, addr string) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr) // an address has a port
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, HandshakeError{err}
	}
	return secured{t}, nil
}

// secured is a TLS connection whose failed Write returns the server's alert. A server that
// refuses the client's certificate sends that alert after the handshake, and has closed the
// connection when the first request comes.
type secured struct{ *tls.Conn }

func (c secured) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if HungUp(err) {
		if _, alert := c.Read(make([]byte, 1)); alert != nil {
			err = alert
		}
	}
	return n, err
}
