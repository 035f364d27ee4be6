package network

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

var words = Words{Server: "Store", CA: "ca=FILE", Client: "cert=FILE", Name: "server_name=NAME", Other: "other"}

func TestProblem(t *testing.T) {
	for _, c := range []struct {
		err     error
		says    string
		refused bool
		hint    string
	}{
		{&net.DNSError{IsNotFound: true}, "no such host", false, words.hintName()},
		{&net.DNSError{IsTimeout: true}, "the name of the host cannot be looked up now", false, words.hintName()},
		{&net.OpError{Err: os.ErrDeadlineExceeded}, "no answer in time", false, HintNetwork},
		{syscall.ECONNREFUSED, "connection refused", true, words.hintStart("host and port")},
		{syscall.ENOENT, "no such socket", true, words.hintStart("the path")},
		{io.ErrUnexpectedEOF, "it closed the connection", false, "other"},
		{net.ErrClosed, "it closed the connection", false, "other"},
		{syscall.ECONNRESET, "it closed the connection", false, "other"},
		{os.NewSyscallError("socket", syscall.EMFILE), "too many open files", false, hintFiles},
		{syscall.EHOSTUNREACH, "no route to host", false, HintNetwork},
		{errors.Join(syscall.ECONNREFUSED, fmt.Errorf("second: %w", errors.New("nonsense"))), "connection refused", true, words.hintStart("host and port")},
		{errors.Join(errors.New("first"), fmt.Errorf("second: %w", errors.New("nonsense"))), "no Store: nonsense", false, "other"},
	} {
		err := fmt.Errorf("dial: %w", c.err)
		if says, refused, hint := words.Problem(t.Context(), err); says != c.says || refused != c.refused || hint != c.hint {
			t.Errorf("%v: %q, refused %t, %q", c.err, says, refused, hint)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		want := "no answer in time"
		if errors.As(err, new(*net.DNSError)) { // the reason why nobody answered
			want = c.says
		}
		if says, refused, _ := words.Problem(ended, err); says != want || refused {
			t.Errorf("%v after the end: %q, refused %t", c.err, says, refused)
		}
		if says, _, _ := words.TLSProblem(err); says != "" {
			t.Errorf("%v is of TLS: %q", c.err, says)
		}
	}
}

func TestTLSProblem(t *testing.T) {
	day := time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC)
	remote := func(text string) error { return &net.OpError{Op: "remote error", Err: errors.New("tls: " + text)} }
	for _, c := range []struct {
		err       error
		says      string
		permanent bool
		hint      string
	}{
		{x509.UnknownAuthorityError{}, "not signed by a CA that this host trusts", true, "with ca=FILE in the store's URL"},
		{x509.HostnameError{Host: "h", Certificate: &x509.Certificate{DNSNames: []string{"g"}}}, "not for this name", true, "give that name with server_name=NAME in the store's URL"},
		{x509.HostnameError{Host: "h", Certificate: &x509.Certificate{}}, "has no name", true, "subjectAltName"},
		{x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotBefore: day, NotAfter: day.AddDate(1, 0, 0)}},
			"valid from 2025-01-02T00:00:00Z to 2026-01-02T00:00:00Z", true, "renew that certificate"},
		{x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotBefore: day.AddDate(500, 0, 0), NotAfter: day.AddDate(501, 0, 0)}},
			"valid from 2525-01-02T00:00:00Z", false, "set the clock of this host"},
		{x509.CertificateInvalidError{Reason: x509.IncompatibleUsage, Cert: &x509.Certificate{}}, "incompatible key usage", true, "serverAuth"},
		{remote("expired certificate"), "expired certificate", true, "renew the client certificate"},
		{remote("certificate required"), "it refuses this side of TLS: certificate required", true, "with cert=FILE in the store's URL"},
		{remote("protocol version not supported"), "it refuses this side of TLS: protocol version", false, "TLS 1.2"},
	} {
		says, permanent, hint := words.TLSProblem(fmt.Errorf("handshake: %w", c.err))
		if !strings.Contains(says, c.says) || permanent != c.permanent || !strings.Contains(hint, c.hint) {
			t.Errorf("%v: %q, permanent %t, %q", c.err, says, permanent, hint)
		}
	}
}

// What a user may have overlooked in a password is said where it was refused.
func TestRefusedPassword(t *testing.T) {
	refused := &Known{Text: "it is wrong", Login: true, Hint: "correct the password"}
	for password, want := range map[string]string{"s3cret": "it is wrong$", "'s3cret'": "it is wrong (the password begins with a quote", "s3cret ": "(the password ends with a blank)"} {
		err := words.StoreError(t.Context(), "acquire", "store", errors.New(""), refused, &Accepted{}, password)
		if got := err.Error(); !strings.Contains(got+"$", want) || strings.Contains(got, "s3cret") {
			t.Errorf("%q: %q", password, got)
		}
	}
}

// Who has accepted a login is not at the wrong address.
func TestSilentServer(t *testing.T) {
	accepted := &Accepted{}
	for _, want := range []string{HintNetwork, HintSilent} {
		if err := words.StoreError(t.Context(), "renew", "store", os.ErrDeadlineExceeded, nil, accepted); err.Hint != want {
			t.Errorf("hint %q, want %q", err.Hint, want)
		}
		accepted.Login()
	}
}

func TestCatchPanic(t *testing.T) {
	err := CatchPanic(func() error { panic("length -5") })
	if err == nil || err.Error() != "unreadable answer: length -5" {
		t.Error(err)
	}
}
