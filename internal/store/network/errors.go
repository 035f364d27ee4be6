package network

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Words are the parts of error messages that differ between stores.
type Words struct {
	// Server is what should answer, such as "Redis".
	Server string
	// CA, Client and Name are how an address names the file of a CA, the two files of a
	// client certificate, and the name in the server's certificate. Name is empty if the
	// address cannot say it.
	CA, Client, Name string
	// Place is where those are written; "" means the store's URL.
	Place string
	// NoTLS is the hint for a server without TLS, Other the one for unknown errors.
	NoTLS, Other string
}

// Hints for errors of the network.
const (
	HintNetwork = "check that it runs there, that host and port are right, and that nothing on the way drops packets"
	// HintSilent is for a store that has accepted the login before.
	HintSilent = "the login was accepted before, so the address was right: check that it still runs, is not overloaded or stopped, that a pooler has connections left, and that nothing on the way drops packets"
	hintFiles  = "raise the limit of open files on this host: ulimit -n, or LimitNOFILE= of a systemd unit"
)

const noAnswer = "no answer in time"

// Known is what a store knows about an error that its server sent, or that it found itself.
type Known struct {
	Text string
	// Permanent: it stays until a person acts. Login: it concerns a user, a password, a
	// certificate or the database. Rights: it concerns what this user may do there.
	Permanent, Login, Rights bool
	Hint                     string
}

// StoreError returns err, any error of a store's client, the network or the server at an
// address, as one line for people. known is nil if the store knows nothing about it. An error
// about logins or rights is not permanent if the server has accepted this login, or carried
// out a call of this name, before. Secrets are removed from the text.
func (w Words) StoreError(ctx context.Context, op, at string, err error, known *Known, accepted *Accepted, secrets ...string) *lease.StoreError {
	if errors.Is(err, ErrClosed) {
		return &lease.StoreError{Op: op, Err: err}
	}
	var k Known
	refused := false
	unreadable, isFile := errors.AsType[*lease.StoreError](err)
	switch {
	case isFile: // a file of the address cannot be read
		k = Known{Text: unreadable.Err.Error(), Permanent: unreadable.Permanent, Login: true, Hint: unreadable.Hint}
	case known != nil:
		k = *known
	case errors.Is(err, ErrNoDate):
		k = Known{Text: err.Error(), Permanent: true, Hint: "check what stands between this host and that server, which sends one"}
	case errors.Is(ctx.Err(), context.Canceled):
		k.Text = "given up before an answer came"
	default:
		if k.Text, k.Permanent, k.Hint = w.TLSProblem(err); k.Text != "" {
			k.Login = true
		} else {
			k.Text, refused, k.Hint = w.Problem(ctx, err)
			if k.Text == noAnswer && accepted.HasLogin() {
				k.Hint = HintSilent
			}
		}
	}
	if k.Login && strings.Contains(k.Hint, "password") && len(secrets) > 0 {
		k.Text += odd(secrets[0])
	}
	if k.Login && accepted.HasLogin() || k.Rights && accepted.Has(op) { // somebody is changing it, at the server or here
		k.Permanent = false
	}
	return &lease.StoreError{Op: op, Err: fmt.Errorf("%s: %s", at, lease.Readable(k.Text, secrets...)), Refused: refused, Permanent: k.Permanent, Hint: k.Hint}
}

// odd says what a user may have overlooked in a password, which no message shows.
func odd(password string) string {
	oddity := location.Oddity(password)
	if oddity == "" {
		return ""
	}
	return " (the password" + strings.TrimPrefix(oddity, ": it") + ")"
}

// Problem returns the text and the hint of an error that kept a server from answering,
// other than one of TLS. refused: nothing listens at the address.
func (w Words) Problem(ctx context.Context, err error) (text string, refused bool, hint string) {
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host", false, w.hintName()
	case errors.As(err, &dns):
		return "the name of the host cannot be looked up now", false, w.hintName()
	case ctx.Err() != nil, IsTimeout(err):
		return noAnswer, false, HintNetwork
	case Closed(err):
		return "it closed the connection", false, w.Other
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", true, w.hintStart("host and port")
	case errors.Is(err, syscall.ENOENT):
		return "no such socket", true, w.hintStart("the path")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return Cause(err).Error(), false, hintFiles
	case errors.As(err, &errno):
		return errno.Error(), false, HintNetwork
	}
	return "no " + w.Server + ": " + Cause(err).Error(), false, w.Other
}

// TLSProblem returns the text and the hint of an error of TLS, and an empty text for other
// errors. A permanent one needs another certificate or another address.
func (w Words) TLSProblem(err error) (text string, permanent bool, hint string) {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var noTLS tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "its certificate was not signed by a CA that this host trusts", true, "name the file of its CA's certificate with " + w.CA + w.in()
	case errors.As(err, &name) && len(name.Certificate.DNSNames) == 0 && len(name.Certificate.IPAddresses) == 0:
		return "its certificate has no name of a host: its CN is not looked at", true, "give it a certificate with a subjectAltName for the host" + w.in()
	case errors.As(err, &name):
		hint = "name the server as its certificate does"
		if w.Name != "" {
			hint += ", or give that name with " + w.Name + w.in()
		}
		return "its certificate is not for this name: " + withoutPackage(name), true, hint
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		text = fmt.Sprintf("a certificate that it shows is valid from %s to %s", date(invalid.Cert.NotBefore), date(invalid.Cert.NotAfter))
		if time.Now().Before(invalid.Cert.NotBefore) { //nolint:forbidigo // of a certificate, whose times are wall times
			return text, false, "set the clock of this host: by that it is not valid yet" // as of a host that has just booted and has no battery
		}
		return text, true, "renew that certificate, or set the clock of this host"
	case errors.As(err, &invalid):
		return "its certificate cannot be used: " + withoutPackage(invalid), true, "give it one for servers (extendedKeyUsage serverAuth), signed by a CA that may sign it"
	case errors.As(err, &noTLS):
		return "it speaks no TLS at this port", false, w.NoTLS
	case errors.As(err, &alert) && alert.Op == "remote error":
		text = "it refuses this side of TLS: " + withoutPackage(alert.Err)
		if strings.Contains(text, "expired certificate") {
			return text, true, "renew the client certificate, or set the clock of the server's host"
		}
		if strings.Contains(text, "certificate") {
			return text, true, "give a client certificate that it trusts with " + w.Client + w.in()
		}
		return text, false, "it must speak TLS 1.2 or newer: look at its settings and its log"
	}
	if errors.As(err, new(HandshakeError)) && !IsTimeout(err) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return "no TLS: " + strings.TrimPrefix(err.Error(), "tls: "), false, w.Other
	}
	return "", false, ""
}

func (w Words) hintStart(wrong string) string { return "start it, or correct " + wrong + w.in() }

func (w Words) hintName() string {
	return "check the host" + w.in() + ", and DNS on this host: /etc/resolv.conf"
}

func (w Words) in() string { return " in " + cmp.Or(w.Place, "the store's URL") }

// HungUp reports whether err says that the peer had closed the connection before a write.
func HungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Closed reports whether err says that the connection was closed before the answer.
func Closed(err error) bool {
	return HungUp(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// IsTimeout reports whether err says that something took too long.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// Cause returns the innermost error of the last attempt.
func Cause(err error) error {
	for {
		var next error
		switch e := err.(type) { //nolint:errorlint // it goes through the chain itself
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := slices.DeleteFunc(e.Unwrap(), func(e error) bool { return e == nil }); len(all) > 0 {
				next = all[len(all)-1]
			}
		}
		if next == nil {
			return err
		}
		err = next
	}
}

// CatchPanic returns a panic of call as an error: clients of stores panic at some answers
// of other programs, and that must not end the elector.
func CatchPanic(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("unreadable answer: %v", r)
		}
	}()
	return call()
}

func withoutPackage(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "x509: "), "tls: ")
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
