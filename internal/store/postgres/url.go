package postgres

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"os/user"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

const urlForm = "write postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE"

// Factory opens this store by its address, which may name files: file:PATH instead of a
// password, and those of TLS.
var Factory = location.Factory{
	Schemes: []string{"postgres", "postgresql"},
	Form:    "postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE",
	Open:    func(o location.Options) (location.Store, error) { return New(o) },
	Redact:  location.Redaction{LoneUser: true, Parameters: slices.DeleteFunc(slices.Clone(parameters), func(p string) bool { return p == "sslpassword" })}.Redact,
}

// parameters are the parameters of libpq that a URL may have.
var parameters = []string{
	"application_name", "channel_binding", "connect_timeout", "options", "require_auth", "sslcert", "sslkey", "sslmode", "sslnegotiation",
	"sslpassword", "sslrootcert", "sslsni", "target_session_attrs",
}

const urls = location.Kind("postgres store")

// parseURL reads the URL of a store, and the files that it names.
func parseURL(text string) (*pgconn.Config, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "postgres" && scheme != "postgresql" {
		return nil, urls.Refusal(`the URL must begin with "postgres://"`, urlForm)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, urls.Refusal("the URL cannot be read", urlForm+", and "+location.EncodeThem)
	}
	if strings.Contains(text, "%00") { // the client's error would repeat what precedes it
		return nil, urls.Refusal("the URL has a NUL character, %00, which Postgres takes nowhere", urlForm)
	}
	_, hosts, _ := location.Authority(rest)
	for i := range hosts { // package url accepts several hosts only if all have a port, or none
		if hosts[i], err = urls.Host(hosts[i], "5432", urlForm); err != nil {
			return nil, err
		}
	}
	u.Host = strings.Join(hosts, ",")
	switch database := strings.TrimPrefix(u.Path, "/"); {
	case database == "":
		return nil, urls.Refusal("the URL names no database", urlForm)
	case strings.Contains(database, "/"), u.Fragment != "":
		return nil, urls.Refusal("the path of the URL is not the name of a database", urlForm+", and "+location.EncodeThem)
	}
	if u.User.Username() == "" {
		if u.User, err = thisUser(u.User); err != nil {
			return nil, err
		}
	}
	values, err := settings(u)
	if err != nil {
		return nil, err
	}
	// The client reads a plus as a plus, not as a space.
	u.RawQuery = strings.ReplaceAll(values.Encode(), "+", "%20")
	config, err := pgconn.ParseConfig(u.String())
	if err != nil {
		return nil, unusable(err)
	}
	password, _ := u.User.Password()
	if config.Password, err = urls.Password(password); err != nil {
		return nil, err
	}
	config.RuntimeParams = map[string]string{
		"application_name": cmp.Or(values.Get("application_name"), "leaderrun"),
		"client_encoding":  "UTF8",
	}
	if options := values.Get("options"); options != "" {
		config.RuntimeParams["options"] = options
	}
	return config, nil
}

// thisUser returns the user of this process, for a URL without a user.
func thisUser(given *url.Userinfo) (*url.Userinfo, error) {
	if _, secret := given.Password(); secret {
		return nil, urls.Refusal("the URL has a password but no user", urlForm)
	}
	me, err := user.Current()
	if err != nil {
		return nil, urls.Refusal("the URL names no user, and this one has no name", urlForm)
	}
	return url.User(me.Username), nil
}

// settings returns a value for every parameter that the client knows. It would take missing
// ones from PG* variables and from files in the home directory. Then the same line in a
// crontab could mean another store on each host, and the password could come from variables
// of the command.
func settings(u *url.URL) (url.Values, error) {
	given, err := urls.Parameters(u, parameters)
	if err != nil {
		return nil, err
	}
	all := url.Values{
		"channel_binding": {"prefer"}, "connect_timeout": {"0"}, "max_protocol_version": {""}, "min_protocol_version": {""},
		"require_auth": {""}, "sslcert": {""}, "sslcertmode": {"allow"}, "sslkey": {""}, "sslmode": {"prefer"},
		"sslnegotiation": {""}, "sslpassword": {""}, "sslrootcert": {""}, "sslsni": {"1"}, "target_session_attrs": {"any"},
	}
	if strings.Contains(u.Host, ",") {
		all.Set("target_session_attrs", "read-write") // the one that is no replica
	}
	if !slices.Contains([]string{"", "any", "primary", "read-write"}, given.Get("target_session_attrs")) {
		return nil, urls.Refusal("target_session_attrs in the URL asks for a replica, which takes no leases", "write target_session_attrs=read-write, or leave it out")
	}
	maps.Copy(all, given)
	password, err := urls.Password(all.Get("sslpassword"))
	all.Set("sslpassword", password)
	return all, err
}

// clientErrors are the client's errors by a part of their text, with clearer words if they
// are needed.
var clientErrors = []struct{ part, words, hint string }{
	{"sslmode", "", "write sslmode=disable, allow, prefer, require, verify-ca or verify-full"},
	{"read CA file", "", "correct the path behind sslrootcert=, or make the file readable"},
	{"add CA", "the file behind sslrootcert= holds no certificate in PEM form", "name one that begins with -----BEGIN CERTIFICATE-----"},
	{"are required", "", "give sslcert=FILE and sslkey=FILE, or neither"},
	{"key", "", "let sslcert= and sslkey= name a certificate and its key, both readable and in PEM form"},
	{"cert", "", "let sslcert= and sslkey= name a certificate and its key, both readable and in PEM form"},
}

// unusable returns the client's error without the URL that it repeats. In the environment
// only PGSERVICE can cause one.
func unusable(err error) error {
	const hint = "correct the parameters of the URL"
	cause := errors.Unwrap(err)
	if cause == nil {
		return urls.Refusal("a parameter of the URL has a value that Postgres does not know", hint)
	}
	text := cause.Error()
	if strings.Contains(text, "service") {
		return urls.Refusal("PGSERVICE in the environment: "+text, "unset PGSERVICE: the URL says all that leaderrun needs")
	}
	for _, e := range clientErrors {
		if strings.Contains(text, e.part) {
			return urls.Refusal(cmp.Or(e.words, text), e.hint)
		}
	}
	return urls.Refusal(text, hint)
}
