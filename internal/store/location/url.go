package location

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Kind is a store's name in errors about its address, such as "mysql store".
type Kind string

// EncodeThem is the end of a hint about a URL that cannot be read.
const EncodeThem = "in users and passwords percent-encode all but A-Z a-z 0-9 . _ ~ -, in paths all but these and /"

// Refusal returns the error for an address that cannot be used. problem must not repeat a
// host, port, path or parameter: if a password has a '#' that is not escaped, say, parts of
// it are parsed as one of these.
func (k Kind) Refusal(problem, hint string) error {
	return &lease.StoreError{Op: string(k), Err: errors.New(problem), Permanent: true, Hint: hint}
}

// Parse reads an address with the store's own parse, and refuses an empty prefix.
func Parse[T any](k Kind, o Options, parse func(string) (T, error)) (t T, err error) {
	escaped := strings.ToUpper(o.URL)
	if strings.Contains(escaped, "%0A") || strings.Contains(escaped, "%0D") {
		return t, k.Refusal("the URL has a line break in it, as %0A or %0D", hintLineBreak)
	}
	if t, err = parse(o.URL); err == nil && o.Prefix == "" {
		err = k.Refusal("the prefix of the keys is empty", "leave --prefix out, or give it a value")
	}
	return t, err
}

// Authority splits a URL after its scheme, since package url reads only one host. user ends with
// the @, if there is one.
func Authority(rest string) (user string, hosts []string, path string) {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest, path = rest[:end], rest[end:]
	}
	at := strings.LastIndexByte(rest, '@') + 1
	return rest[:at], strings.Split(rest[at:], ","), path
}

// IsName reports whether a text has only letters, digits, dots, hyphens and underscores.
func IsName(text string) bool {
	const signs = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	return text != "" && strings.Trim(text, signs) == ""
}

// Host returns a host of a URL with its port or the default port. form is the hint of errors.
func (k Kind) Host(host, defaultPort, form string) (addr string, err error) {
	u, err := url.Parse("store://" + host)
	if err != nil || strings.ContainsAny(u.Hostname(), "[]") { // package url lets a lone bracket pass
		return "", k.Refusal("a host in the URL cannot be read", form)
	}
	name, port := u.Hostname(), cmp.Or(u.Port(), defaultPort)
	if strings.Contains(name, ":") && !strings.Contains(host, "[") {
		return "", k.Refusal("a host in the URL has more than one colon", "write HOST:PORT, and an IPv6 address in brackets: [::1]:"+defaultPort)
	}
	if name == "" {
		return "", k.Refusal("the URL names no host", form)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", k.Refusal("the port in the URL is not a number from 1 to 65535", form)
	}
	return net.JoinHostPort(name, port), nil
}

// Parameters returns the parameters of a URL. Each must be known and given only once. An unknown
// one is named if it cannot be a part of a password.
func (k Kind) Parameters(u *url.URL, known []string) (url.Values, error) {
	// A plus is a plus here, while package url reads it as a space, as in HTML forms.
	values, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B"))
	if err != nil {
		return nil, k.Refusal("the parameters of the URL cannot be read", EncodeThem)
	}
	for name, value := range values {
		switch {
		case !slices.Contains(known, name) && !isParameter(name, u.RawQuery):
			return nil, k.Refusal("the URL has a parameter that it cannot have", hintKnown(known))
		case !slices.Contains(known, name):
			return nil, k.Refusal("the URL has the parameter "+strconv.Quote(name)+", which this store does not know", hintKnown(known))
		case len(value) > 1 || value[0] == "":
			return nil, k.Refusal("the parameter "+name+" of the URL is empty or given twice", "give it one value")
		}
	}
	return values, nil
}

// isParameter reports whether a text looks like the name of a parameter of a query, all of which are in
// small letters, and not like a part of a password with a question mark.
func isParameter(text, query string) bool {
	const signs, most = "abcdefghijklmnopqrstuvwxyz_", 40
	return strings.Trim(text, signs) == "" && len(text) <= most && strings.Contains(query, text+"=") && !strings.Contains(query, "@")
}

func hintKnown(known []string) string {
	if len(known) == 0 {
		return "leave it out: this form of the URL has no parameters; a ? in a password is %3F"
	}
	return "leave it out; it can have " + strings.Join(known, ", ") + "; a ? in a password is %3F"
}

// TLSParameters are the parameters that TLS reads.
var TLSParameters = []string{"ca", "cert", "key", "server_name", "insecure"}

// TLS returns the TLS configuration of the parameters and the files that they name.
func (k Kind) TLS(values url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: values.Get("server_name")}
	if text := values.Get("insecure"); text != "" {
		insecure, err := strconv.ParseBool(text)
		if err != nil {
			return nil, k.Refusal("the parameter insecure of the URL is neither true nor false", "leave it out, or write insecure=true")
		}
		c.InsecureSkipVerify = insecure
	}
	if file := values.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, k.Refusal("the CA's certificate cannot be read: "+err.Error(), "correct the path behind ca=, or make the file readable")
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, k.Refusal("the CA's file "+strconv.Quote(file)+" holds no certificate in PEM form", "name one that begins with -----BEGIN CERTIFICATE-----")
		}
	}
	cert, key := values.Get("cert"), values.Get("key")
	switch {
	case (cert == "") != (key == ""):
		return nil, k.Refusal("the URL names a client certificate without its key, or a key without its certificate", "give both, as cert=FILE&key=FILE")
	case cert != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, k.Refusal("the client certificate or its key cannot be used: "+err.Error(), "correct the paths behind cert= and key=: both files in PEM form, readable, and made for each other")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
