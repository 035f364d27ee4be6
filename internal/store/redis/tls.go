package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tlsConfig reads the parameters of TLS and the files that they name.
func tlsConfig(values url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: values.Get("server_name")}
	if text := values.Get("insecure"); text != "" {
		insecure, err := strconv.ParseBool(text)
		if err != nil {
			return nil, refusal("the parameter insecure of the URL is neither true nor false", "leave it out, or write insecure=true")
		}
		c.InsecureSkipVerify = insecure
	}
	if file := values.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, refusal("the CA's certificate cannot be read: "+err.Error(), "correct the path behind ca=, or make the file readable")
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, refusal("the CA's file "+strconv.Quote(file)+" holds no certificate in PEM form", "name one that begins with -----BEGIN CERTIFICATE-----")
		}
	}
	cert, key := values.Get("cert"), values.Get("key")
	switch {
	case (cert == "") != (key == ""):
		return nil, refusal("the URL names a client certificate without its key, or a key without its certificate", "give both, as cert=FILE&key=FILE")
	case cert != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, refusal("the client certificate or its key cannot be used: "+err.Error(), "correct the paths behind cert= and key=: both files in PEM form, readable, and made for each other")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// handshakeError is what kept a connection that was made from becoming one of TLS.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// secure makes c a connection of TLS. It ends with ctx.
func secure(ctx context.Context, c net.Conn, config *tls.Config, addr string) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr) // an address has a port
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, handshakeError{err}
	}
	return secured{t}, nil
}

func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// secured is a connection on which the cause of its end is not lost: a server
// that does not like this side's certificate says so after the handshake, and has
// hung up when the first request comes.
type secured struct{ *tls.Conn }

func (c secured) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if hungUp(err) {
		if _, alert := c.Read(make([]byte, 1)); alert != nil {
			err = alert
		}
	}
	return n, err
}

// tlsProblem puts what went wrong with TLS into words; what is permanent takes
// another certificate, or another URL. An empty text says that it was not TLS.
func tlsProblem(err error) (text string, permanent bool, hint string) {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var noTLS tls.RecordHeaderError
	var alert *net.OpError
	var handshake handshakeError
	switch {
	case errors.As(err, &unknown):
		return "its certificate was not signed by a CA that this host trusts", true, "name the file of its CA's certificate with ca=FILE in the store's URL"
	case errors.As(err, &name):
		return "its certificate is not for this name: " + withoutPackage(name), true, "name the server as its certificate does, or give that name with server_name=NAME in the store's URL"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "a certificate that it shows is valid from " + date(invalid.Cert.NotBefore) + " to " + date(invalid.Cert.NotAfter), true, "renew that certificate, or set the clock of this host"
	case errors.As(err, &noTLS):
		return "it speaks no TLS at this port", false, "name the port that does, or leave TLS out: redis:// instead of rediss://"
	case errors.As(err, &alert) && alert.Op == "remote error":
		text, hint = "it refuses this side of TLS: "+withoutPackage(alert.Err), "it must speak TLS 1.2 or newer: look at its settings and its log"
		if permanent = strings.Contains(text, "certificate"); permanent {
			hint = "give a client certificate that it trusts with cert=FILE&key=FILE in the store's URL"
		}
		return text, permanent, hint
	case errors.As(err, &handshake) && !isTimeout(err) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		return "no TLS: " + withoutPackage(err), false, hintOther
	}
	return "", false, ""
}

func withoutPackage(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "x509: "), "tls: ")
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
