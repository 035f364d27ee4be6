package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// client asks the members in turn, the one that answered last first.
type client struct {
	url    string
	hosts  []string
	scheme string
	http   *http.Client
	// latest is the URL as it was read last: the files that it names are changed while a
	// command runs.
	latest atomic.Pointer[target]
	// accepted: the URL's login has been accepted before.
	accepted atomic.Bool

	mu    sync.Mutex
	token string
	first int           // of hosts
	moved chan struct{} // closed when first changes
}

func newClient(url string, t *target, dial network.Dial) *client {
	c := &client{url: url, hosts: t.hosts, scheme: "http://", moved: make(chan struct{})}
	c.latest.Store(t)
	var config func(context.Context) (*tls.Config, error)
	if t.tls != nil {
		c.scheme = "https://"
		config = func(context.Context) (*tls.Config, error) {
			now, err := parseURL(c.url)
			if err != nil {
				return nil, err
			}
			c.latest.Store(now)
			return now.tls, nil
		}
	}
	c.http = network.HTTP(dial, config)
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do runs one call at the first member that answers. Each has its share of the time that
// is left. A member that gave no answer may have done what it was asked: the call must be
// one that can be repeated.
func (c *client) do(ctx context.Context, op string, call func(ctx context.Context, host string) error) error {
	return c.inTurn(ctx, op, func(ctx context.Context, host string, left int) error {
		ctx, cancel := share(ctx, left)
		defer cancel()
		return call(ctx, host)
	})
}

// share gives the first of so many members its share of the time that is left.
func share(ctx context.Context, members int) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded {
		return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(members)) //nolint:forbidigo // a context's deadline is on that clock
	}
	return ctx, func() {}
}

// inTurn runs one call at one member after the other until one answers. Left is how many
// members there are from this one on.
func (c *client) inTurn(ctx context.Context, op string, call func(ctx context.Context, host string, left int) error) error {
	c.mu.Lock()
	first := c.first
	c.mu.Unlock()
	var err error
	for i := range c.hosts {
		n := (first + i) % len(c.hosts)
		failed := err
		err = call(ctx, c.hosts[n], len(c.hosts)-i)
		if !elsewhere(err) {
			c.prefer(n)
		}
		if failed != nil && errors.Is(err, syscall.ECONNREFUSED) {
			err = failed // nothing listens at all only if that is so everywhere
		}
		if !elsewhere(err) || errors.As(err, new(broken)) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return c.storeError(ctx, op, err)
	}
	return nil
}

func (c *client) prefer(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first != n {
		c.first = n
		close(c.moved)
		c.moved = make(chan struct{})
	}
}

// post asks a member and reads its whole answer, with the Date that it bears.
func (c *client) post(ctx context.Context, host, path string, question, answer any) (date time.Time, err error) {
	resp, err := c.ask(ctx, host, path, question)
	if err != nil {
		return date, err
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 16 << 20 // above the names of all keys
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return date, err
	}
	date, err = http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return date, errNoDate
	}
	if json.Unmarshal(text, answer) != nil {
		return date, errNoAnswer
	}
	return date, nil
}

// ask sends a question, once more if the token is not valid any more, and returns an
// answer that has begun.
func (c *client) ask(ctx context.Context, host, path string, question any) (*http.Response, error) {
	token, err := c.login(ctx, host)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, host, path, token, question)
	if c.latest.Load().user != "" && needsToken(err) {
		c.forget(token)
		if token, err = c.login(ctx, host); err == nil {
			resp, err = c.send(ctx, host, path, token, question)
		}
	}
	if err == nil {
		c.accepted.Store(true)
	}
	return resp, err
}

// login returns a token, "" where none is needed.
func (c *client) login(ctx context.Context, host string) (string, error) {
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	if token != "" || c.latest.Load().user == "" {
		return token, nil
	}
	now, err := parseURL(c.url)
	if err != nil {
		return "", err
	}
	c.latest.Store(now)
	resp, err := c.send(ctx, host, "/v3/auth/authenticate", "", authRequest{now.user, now.password})
	if hasText(err, "authentication is not enabled") {
		return "", nil // as etcd's own client has it
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var a authAnswer
	if json.NewDecoder(resp.Body).Decode(&a) != nil || a.Token == "" {
		return "", errNoAnswer
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = a.Token
	return a.Token, nil
}

func (c *client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
}

// send is one request. Any status but 200 is an error.
func (c *client) send(ctx context.Context, host, path, token string, question any) (*http.Response, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(network.Call(ctx), http.MethodPost, c.scheme+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	// With this a member that has lost the others ends a watch, which would see nothing.
	r.Header.Set("Grpc-Metadata-Hasleader", "true")
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	resp, err := c.http.Do(r)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, err
	}
	var p problem
	if json.Unmarshal(text, &p) != nil || p.text() == "" {
		return nil, &serverError{resp.StatusCode, strings.TrimSpace(string(text)), false}
	}
	return nil, &serverError{resp.StatusCode, p.text(), true}
}
