package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strconv"
)

// TLSParameters are those of an address that TLSConfig reads.
var TLSParameters = []string{"ca", "cert", "key", "server_name", "insecure"}

// TLSConfig reads the parameters of TLS in an address and the files that they name. A
// problem, and a hint what to do about it, are there instead of a configuration.
func TLSConfig(values url.Values) (c *tls.Config, problem, hint string) {
	c = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: values.Get("server_name")}
	if text := values.Get("insecure"); text != "" {
		insecure, err := strconv.ParseBool(text)
		if err != nil {
			return nil, "the parameter insecure of the URL is neither true nor false", "leave it out, or write insecure=true"
		}
		c.InsecureSkipVerify = insecure
	}
	if file := values.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, "the CA's certificate cannot be read: " + err.Error(), "correct the path behind ca=, or make the file readable"
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, "the CA's file " + strconv.Quote(file) + " holds no certificate in PEM form", "name one that begins with -----BEGIN CERTIFICATE-----"
		}
	}
	cert, key := values.Get("cert"), values.Get("key")
	switch {
	case (cert == "") != (key == ""):
		return nil, "the URL names a client certificate without its key, or a key without its certificate", "give both, as cert=FILE&key=FILE"
	case cert != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, "the client certificate or its key cannot be used: " + err.Error(), "correct the paths behind cert= and key=: both files in PEM form, readable, and made for each other"
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, "", ""
}

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
