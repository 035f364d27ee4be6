package network

import (
	"context"
	"crypto/tls"
	"net"
)

// HandshakeError is what kept a connection that was made from becoming one of TLS.
type HandshakeError struct{ error }

func (e HandshakeError) Unwrap() error { return e.error }

// Secure makes c a connection of TLS. It ends with ctx.
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

// secured is a connection on which the cause of its end is not lost: a server
// that does not like this side's certificate says so after the handshake, and has
// hung up when the first request comes.
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
