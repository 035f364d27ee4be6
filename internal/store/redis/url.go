package redis

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
)

const (
	defaultPort = "6379"
	urlForm     = "write redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]"
)

func refusal(problem, cure string) error {
	return &lease.StoreError{Op: "redis store", Err: errors.New(problem), Permanent: true, Cure: cure}
}

// parseURL reads redis://[[user]:password@]host[:port][/database]. A URL that
// is cut at the wrong place, for instance because of a '#' in the password,
// shows parts of the password as host, port or path: so no error repeats any.
func parseURL(text string) (*redis.Options, error) {
	if scheme, _, ok := strings.Cut(text, "://"); !ok || scheme != "redis" {
		return nil, refusal(`the URL must begin with "redis://"`, urlForm)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, refusal("the URL cannot be read", urlForm+", and percent-encode the characters : / ? # [ ] @ % of a password")
	}
	opt := &redis.Options{}
	if opt.Addr, err = address(u); err != nil {
		return nil, err
	}
	if opt.DB, err = database(u); err != nil {
		return nil, err
	}
	if u.User != nil {
		var given bool
		opt.Username = u.User.Username()
		if opt.Password, given = u.User.Password(); !given || opt.Password == "" {
			return nil, refusal("the URL has a user but no password", "write redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST without a user")
		}
	}
	return opt, nil
}

func address(u *url.URL) (string, error) {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return "", refusal("the URL names no host", urlForm)
	}
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", refusal("the port in the URL is not a number from 1 to 65535", urlForm)
	}
	return net.JoinHostPort(host, port), nil
}

func database(u *url.URL) (int, error) {
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return 0, refusal("the URL takes no parameters", "end it after the database number, and write a ? or # in a password as %3F or %23")
	}
	path := strings.TrimPrefix(u.Path, "/")
	if path == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(path, 10, 31)
	if err != nil {
		return 0, refusal("the path of the URL is not a database number", "write it as in redis://HOST/0")
	}
	return int(n), nil
}
