package location

import (
	"slices"
	"strings"
)

// Redaction says which parts of a store's addresses may be shown. All others may be a password, or a
// part of one.
type Redaction struct {
	// LoneUser: a user without a password is no mistake.
	LoneUser bool
	// Parameters are those with values that are no secrets.
	Parameters []string
}

const hidden = "***"

// Redact returns an address of any program without what may be a password.
func Redact(address string) string { return Redaction{}.Redact(address) }

// Redact returns an address without what may be a password. It keeps the path of a password file. Of
// a text that is no URL it shows nothing.
func (r Redaction) Redact(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return "…" // it may be anything, a password too
	}
	user, hosts, path := Authority(rest)
	if strings.Contains(path, "@") || slices.ContainsFunc(hosts, hasStrangePort) {
		return scheme + "://…" // a password that is not escaped looks like a path or a port
	}
	path, fragment, isFragment := strings.Cut(path, "#")
	path, query, isQuery := strings.Cut(path, "?")
	if isQuery {
		path += "?" + r.parameters(query)
	}
	if isFragment && fragment != "" {
		path += "#" + hidden
	}
	return scheme + "://" + r.user(user) + strings.Join(hosts, ",") + path
}

// user returns the part up to the @ without a password.
func (r Redaction) user(text string) string {
	user, password, _ := strings.Cut(strings.TrimSuffix(text, "@"), ":")
	switch {
	case text == "":
		return ""
	case password != "":
		return user + ":" + masked(password) + "@"
	case r.LoneUser:
		return text
	}
	return hidden + "@"
}

func (r Redaction) parameters(query string) string {
	list := strings.Split(query, "&")
	for i, p := range list {
		name, value, ok := strings.Cut(p, "=")
		switch {
		case !ok && p != "":
			list[i] = hidden
		case ok && value != "" && !slices.Contains(r.Parameters, name):
			list[i] = name + "=" + masked(value)
		}
	}
	return strings.Join(list, "&")
}

// hasStrangePort reports whether what should be a port is no number.
func hasStrangePort(host string) bool {
	colon := strings.LastIndexByte(host, ':')
	return colon >= 0 && !strings.HasSuffix(host, "]") && strings.Trim(host[colon+1:], "0123456789") != ""
}

func masked(password string) string {
	if strings.HasPrefix(password, filePrefix) {
		return password
	}
	return hidden
}
