package etcd

import (
	"crypto/tls"
	"net/url"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

const hostForm = "[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]"

var schemes = []string{"etcd", "etcds"} // without TLS, with TLS

// Factory opens this store by its address, which may name files: file:PATH instead of a
// password, and those of TLS.
var Factory = location.Factory{
	Schemes: schemes,
	Form:    "etcd://[USER:PASSWORD@]HOST[:PORT]",
	Open:    func(o location.Options) (location.Store, error) { return New(o) },
	Redact:  location.Redaction{Parameters: location.TLSParameters}.Redact,
}

// target is the content of a URL.
type target struct {
	hosts          []string // with their ports
	user, password string
	tls            *tls.Config // nil: none
}

const urls = location.Kind("etcd store")

// parseURL reads the URL of a store, and the files that it names.
func parseURL(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return nil, urls.Refusal(`the URL must begin with "etcd://" or "etcds://"`, "write etcd://"+hostForm)
	}
	form := "write " + scheme + "://" + hostForm
	user, hosts, path := location.Authority(rest)
	u, err := url.Parse("etcd://" + user + "host" + path)
	if err != nil {
		return nil, urls.Refusal("the URL cannot be read", form+", and "+location.EncodeThem)
	}
	if u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, urls.Refusal("the URL has a path, and etcd knows none", form+"; a / or # in a password is %2F or %23")
	}
	t := &target{}
	for _, host := range hosts {
		addr, err := urls.Host(host, "2379", form)
		if err != nil {
			return nil, err
		}
		t.hosts = append(t.hosts, addr)
	}
	if err := t.readUser(u.User); err != nil {
		return nil, err
	}
	return t, t.readParameters(scheme, form, u)
}

func (t *target) readUser(u *url.Userinfo) error {
	password, _ := u.Password()
	t.user = u.Username()
	if u != nil && (t.user == "" || password == "") {
		return urls.Refusal("the URL has a user without a password, or a password without a user", "write etcd://USER:PASSWORD@HOST")
	}
	var err error
	t.password, err = urls.Password(password)
	return err
}

// readParameters reads the parameters of TLS.
func (t *target) readParameters(scheme, form string, u *url.URL) error {
	if scheme == "etcd" && (u.RawQuery != "" || u.ForceQuery) {
		return urls.Refusal("the URL has parameters, which etcd:// has not", form+", or etcds:// for TLS; a ? in a password is %3F")
	}
	if scheme == "etcd" {
		return nil
	}
	values, err := urls.Parameters(u, location.TLSParameters)
	if err == nil {
		t.tls, err = urls.TLS(values)
	}
	return err
}
