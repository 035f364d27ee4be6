package mysql

import (
	"crypto/tls"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

const urlForm = "write mysql://USER:PASSWORD@HOST[:PORT]/DATABASE"

// Factory opens this store by its address, which may name files: file:PATH instead of a
// password, and those of TLS.
var Factory = location.Factory{
	Schemes: []string{"mysql"},
	Form:    "mysql://USER:PASSWORD@HOST[:PORT]/DATABASE",
	Open:    func(o location.Options) (location.Store, error) { return New(o) },
	Redact:  location.Redaction{LoneUser: true, Parameters: parameters}.Redact,
}

// parameters are the parameters that an address may have. Each of them turns TLS on.
var parameters = append([]string{"tls"}, location.TLSParameters...)

// target is the content of an address.
type target struct {
	addr, database string
	user, password string
	tls            *tls.Config // nil: none
}

const urls = location.Kind("mysql store")

// parseURL reads the URL of a store, and the files that it names.
func parseURL(text string) (*target, error) {
	rest, ok := strings.CutPrefix(text, "mysql://")
	if !ok {
		return nil, urls.Refusal(`the URL must begin with "mysql://"`, urlForm)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, urls.Refusal("the URL cannot be read", urlForm+", and "+location.EncodeThem)
	}
	t := &target{user: u.User.Username(), database: strings.TrimPrefix(u.Path, "/")}
	_, hosts, _ := location.Authority(rest)
	if t.addr, err = urls.Host(hosts[0], "3306", urlForm); err != nil {
		return nil, err
	}
	switch {
	case len(hosts) > 1:
		return nil, urls.Refusal("the URL names more than one host", urlForm)
	case t.user == "":
		return nil, urls.Refusal("the URL names no user", urlForm)
	case t.database == "":
		return nil, urls.Refusal("the URL names no database", urlForm)
	case strings.Contains(t.database, "/"), u.Fragment != "":
		return nil, urls.Refusal("the path of the URL is not the name of a database", urlForm+", and "+location.EncodeThem)
	case strings.ContainsRune(t.user+t.database, 0): // the protocol ends them with a NUL
		return nil, urls.Refusal("the URL has a NUL character, %00, in the user or the database", urlForm)
	}
	password, _ := u.User.Password()
	if t.password, err = urls.Password(password); err != nil {
		return nil, err
	}
	values, err := urls.Parameters(u, parameters)
	if err != nil || len(values) == 0 {
		return t, err
	}
	if text := values.Get("tls"); text != "" && text != "true" {
		return nil, urls.Refusal("the parameter tls of the URL is not true", "write tls=true, or leave all parameters out for a connection without TLS")
	}
	t.tls, err = urls.TLS(values)
	return t, err
}
