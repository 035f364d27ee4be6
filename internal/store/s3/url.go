package s3

import (
	"crypto/tls"
	"net/url"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

const (
	scheme  = "s3"
	urlForm = "s3://BUCKET[/PREFIX][?endpoint=https://HOST[:PORT]&region=REGION]"
)

// parameters are those of the address. None of them is a secret.
var parameters = append([]string{"endpoint", "region"}, location.TLSParameters...)

// Factory opens this store by its address, which has no password.
var Factory = location.Factory{
	Schemes:  []string{scheme},
	Form:     "s3://BUCKET/PREFIX",
	Shortest: shortest,
	Open:     func(o location.Options) (location.Store, error) { return New(o) },
	Redact:   location.Redaction{Parameters: parameters}.Redact,
}

// place is the content of an address.
type place struct {
	bucket, prefix string // the prefix is empty, or ends with a slash
	// endpoint is https://HOST[:PORT] without a path, "" if the address names none.
	endpoint, region string
	tls              *tls.Config
}

const urls = location.Kind("s3 store")

// parseURL reads the URL of a store, and the files that it names.
func parseURL(text string) (p place, err error) {
	const form = "write " + urlForm
	rest, ok := strings.CutPrefix(text, scheme+"://")
	if !ok {
		return p, urls.Refusal(`the URL must begin with "s3://"`, form)
	}
	user, hosts, path := location.Authority(rest)
	u, err := url.Parse(scheme + "://bucket" + path)
	switch {
	case user != "" || strings.Contains(path, "@"):
		return p, urls.Refusal("the URL has a user or a password, and S3 takes none from it", form+"; the credentials come from the environment or from AWS' files")
	case err != nil || u.Fragment != "":
		return p, urls.Refusal("the URL cannot be read", form)
	case len(hosts) != 1 || !location.IsName(hosts[0]) || len(hosts[0]) < 3 || len(hosts[0]) > 255:
		return p, urls.Refusal("the URL does not name a bucket by 3 letters, digits, dots or hyphens or more", form)
	}
	p.bucket = hosts[0]
	if p.prefix = strings.Trim(u.Path, "/"); p.prefix != "" {
		if slices.ContainsFunc(strings.Split(p.prefix, "/"), func(part string) bool { return !location.IsName(part) || strings.Trim(part, ".") == "" }) {
			return p, urls.Refusal("the prefix in the URL has characters that leaderrun does not use", "write names of letters, digits, dots, hyphens and underscores, with slashes between them")
		}
		p.prefix += "/"
	}
	return p, p.readParameters(u)
}

func (p *place) readParameters(u *url.URL) error {
	values, err := urls.Parameters(u, parameters)
	if err != nil {
		return err
	}
	if p.region = values.Get("region"); p.region != "" && !location.IsName(p.region) {
		return urls.Refusal("the region in the URL is none", "write one like eu-central-1, or what the server is set to")
	}
	if p.endpoint, err = endpoint(values.Get("endpoint"), "the parameter endpoint"); err != nil {
		return err
	}
	p.tls, err = urls.TLS(values)
	return err
}

// endpoint returns the address of a server as SCHEME://HOST[:PORT]. where says who names it.
func endpoint(text, where string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", urls.Refusal(where+" does not name a server", "write https://HOST[:PORT], without the bucket")
	}
	port := map[bool]string{true: "443", false: "80"}[u.Scheme == "https"]
	if _, err := urls.Host(u.Host, port, "write https://HOST[:PORT]"); err != nil {
		return "", err
	}
	return u.Scheme + "://" + u.Host, nil
}
