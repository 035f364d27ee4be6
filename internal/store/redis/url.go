package redis

import (
	"crypto/tls"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Schemes are the beginnings of a store's URL, up to the "://".
var Schemes = []string{"redis", "rediss", "unix", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster"}

// Default is the address if no store is named.
const Default = "redis://127.0.0.1:6379/0"

// Factory opens this store by its address, which may name files: file:PATH instead of a
// password, and those of TLS.
var Factory = location.Factory{
	Schemes:         Schemes,
	Form:            "redis://" + hostForm + "[/DATABASE]",
	Open:            func(o location.Options) (location.Store, error) { return New(o) },
	Redact:          location.Redaction{Parameters: append([]string{"db", "sentinel_username"}, location.TLSParameters...)}.Redact,
	FromEnvironment: fromEnvironment,
}

// kind says what the hosts of a URL are.
type kind int

const (
	single   kind = iota // the server
	socket               // the server's socket on this host
	sentinel             // sentinels, which know the server
	cluster              // some of a cluster's nodes, which know all of them
)

// form describes the URLs of one scheme.
type form struct {
	kind       kind
	text       string
	parameters []string
}

const (
	hostForm  = "[[USER]:PASSWORD@]HOST[:PORT]"
	withinTLS = ", with ?ca=FILE for a CA of your own"
)

var (
	ofTLS      = location.TLSParameters
	ofSentinel = []string{"sentinel_username", "sentinel_password"}

	forms = map[string]form{
		"redis":           {single, hostForm + "[/DATABASE]", nil},
		"rediss":          {single, hostForm + "[/DATABASE]" + withinTLS, ofTLS},
		"unix":            {socket, "[[USER]:PASSWORD@]/PATH[?db=DATABASE]", []string{"db"}},
		"redis-sentinel":  {sentinel, hostForm + "[,HOST[:PORT]]/NAME[/DATABASE]", ofSentinel},
		"rediss-sentinel": {sentinel, hostForm + "[,HOST[:PORT]]/NAME[/DATABASE]" + withinTLS, slices.Concat(ofSentinel, ofTLS)},
		"redis-cluster":   {cluster, hostForm + "[,HOST[:PORT]]", nil},
		"rediss-cluster":  {cluster, hostForm + "[,HOST[:PORT]]" + withinTLS, ofTLS},
	}
)

// target is the content of a URL.
type target struct {
	kind           kind
	addrs          []string // of what kind says
	user, password string
	db             int
	name           string // under which the sentinels know the server

	sentinelUser, sentinelPassword string

	tls *tls.Config // nil: none
}

const urls = location.Kind("redis store")

// parseURL reads the URL of a store, and the files that it names.
func parseURL(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	f, known := forms[scheme]
	if !ok || !known {
		return nil, urls.Refusal("the URL has no // behind its scheme", "write redis://"+forms["redis"].text)
	}
	f.text = "write " + scheme + "://" + f.text
	user, hosts, path := location.Authority(rest)
	u, err := url.Parse("redis://" + user + hosts[0] + path)
	if err != nil {
		return nil, urls.Refusal("the URL cannot be read", f.text+", and "+location.EncodeThem)
	}
	t := &target{kind: f.kind}
	if t.addrs, err = addresses(f, u, hosts); err != nil {
		return nil, err
	}
	values, err := parameters(f, u)
	if err != nil {
		return nil, err
	}
	if err := t.readDatabase(f, u, values); err != nil {
		return nil, err
	}
	if err := t.readPasswords(u, values); err != nil {
		return nil, err
	}
	if slices.Contains(f.parameters, "ca") {
		t.tls, err = urls.TLS(values)
	}
	return t, err
}

func addresses(f form, u *url.URL, hosts []string) ([]string, error) {
	switch {
	case f.kind == socket && u.Host != "":
		return nil, urls.Refusal("the URL of a socket names a host", "write unix:///PATH, with three slashes")
	case f.kind == socket && strings.HasSuffix("/"+u.Path, "/"):
		return nil, urls.Refusal("the URL names no socket", f.text)
	case f.kind == socket:
		return []string{u.Path}, nil
	case f.kind == single && len(hosts) > 1:
		return nil, urls.Refusal("the URL names several hosts", "write redis-sentinel://HOST,HOST/NAME for sentinels, or redis-cluster://HOST,HOST for nodes of a cluster")
	}
	port := "6379"
	if f.kind == sentinel {
		port = "26379"
	}
	var addrs []string
	for _, host := range hosts {
		addr, err := urls.Host(host, port, f.text)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// parameters returns the parameters of a URL, all of which the scheme must have.
func parameters(f form, u *url.URL) (url.Values, error) {
	if u.Fragment != "" || u.ForceQuery {
		return nil, urls.Refusal("the URL has a ? or a # that begins nothing", f.text+"; a ? or # in a password is %3F or %23")
	}
	return urls.Parameters(u, f.parameters)
}

// readDatabase reads the database number, and the name that precedes it.
func (t *target) readDatabase(f form, u *url.URL, values url.Values) error {
	number := strings.TrimPrefix(u.Path, "/")
	switch t.kind {
	case socket:
		number = values.Get("db")
	case sentinel:
		t.name, number, _ = strings.Cut(number, "/")
		if !location.IsName(t.name) {
			return urls.Refusal("the URL does not say under which name the sentinels know the server", f.text)
		}
	case cluster:
		if number != "" && number != "0" {
			return urls.Refusal("the URL names a database, and a cluster has none", f.text)
		}
	}
	if number == "" {
		return nil
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return urls.Refusal("the database in the URL is not a number", f.text)
	}
	t.db = int(n)
	return nil
}

func (t *target) readPasswords(u *url.URL, values url.Values) error {
	t.user = u.User.Username()
	password, _ := u.User.Password()
	if u.User != nil && password == "" {
		return urls.Refusal("the URL has a user but no password", "write USER:PASSWORD@, or :PASSWORD@ without a user")
	}
	t.sentinelUser = values.Get("sentinel_username")
	if t.sentinelUser != "" && values.Get("sentinel_password") == "" {
		return urls.Refusal("the URL has a sentinel_username but no sentinel_password", "give both, or the password alone")
	}
	var err error
	if t.password, err = urls.Password(password); err == nil {
		t.sentinelPassword, err = urls.Password(values.Get("sentinel_password"))
	}
	return err
}
