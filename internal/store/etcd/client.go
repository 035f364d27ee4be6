package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// client asks the members one after the other, beginning with the one that answered last.
// Several goroutines may use it.
type client struct {
	url    string
	hosts  []string
	scheme string
	http   *http.Client
	// latest is what the URL and its files said when they were last read: passwords and
	// certificates may change while a command runs.
	latest atomic.Pointer[target]
	// accepted is what the members have accepted before.
	accepted network.Accepted

	// serverOnly: the certificate that a member showed is none for clients.
	serverOnly atomic.Bool

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
			now.tls.VerifyConnection = func(s tls.ConnectionState) error {
				c.serverOnly.Store(serverOnly(s.PeerCertificates))
				return nil
			}
			return now.tls, nil
		}
	}
	c.http = network.HTTP(dial, config)
	return c
}

// do runs one call at the first member that answers. Each member gets its share of the time
// that remains. The call must be one that can be repeated: a member that gave no answer may
// have carried it out.
func (c *client) do(ctx context.Context, op string, call func(ctx context.Context, host string) error) error {
	return c.inTurn(ctx, op, func(ctx context.Context, host string, left int) error {
		ctx, cancel := share(ctx, left)
		defer cancel()
		return call(ctx, host)
	})
}

// share returns a context for the first of several members, with its share of the time that
// remains.
func share(ctx context.Context, members int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, network.Left(ctx)/time.Duration(members))
}

// inTurn runs one call at one member after the other until one answers. left is the number
// of members that have not been asked, this one included.
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
			err = failed // "refused" only if all members refuse
		}
		if !elsewhere(err) || errors.As(err, new(broken)) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return c.storeError(ctx, op, err)
	}
	c.accepted.Call(op)
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

// post sends a request to a member, and reads the whole answer and its Date.
func (c *client) post(ctx context.Context, host, path string, question, answer any) (date time.Time, err error) {
	resp, err := c.ask(ctx, host, path, question)
	if err != nil {
		return date, err
	}
	text, err := network.ReadAll(resp)
	if err != nil {
		return date, err
	}
	date, err = http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return date, network.ErrNoDate
	}
	if json.Unmarshal(text, answer) != nil {
		return date, errNoAnswer
	}
	if q, is := question.(txn); is && !answer.(*txnAnswer).answers(q) {
		return date, errNoAnswer
	}
	return date, nil
}

// ask sends a request, again if the token is no longer valid, and returns the response, whose
// body is still to be read. Some gateways only close the connection then.
func (c *client) ask(ctx context.Context, host, path string, question any) (*http.Response, error) {
	token, err := c.login(ctx, host)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, host, path, token, question)
	if c.latest.Load().user != "" && (needsToken(err) || token != "" && network.Closed(err)) {
		c.forget(token)
		if token, err = c.login(ctx, host); err == nil {
			resp, err = c.send(ctx, host, path, token, question)
		}
	}
	if err == nil {
		c.accepted.Login()
	}
	return resp, err
}

// login returns a token, or "" if none is needed.
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
		return "", nil // like etcd's own client
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

// send sends one request. Any status but 200 is an error.
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
	// With this a member that has lost the others ends a watch, which could not see changes.
	r.Header.Set("Grpc-Metadata-Hasleader", "true")
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	resp, err := c.http.Do(r)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	text, err := network.ReadAll(resp)
	if err != nil {
		return nil, err
	}
	var p problem
	if json.Unmarshal(text, &p) != nil || p.text() == "" {
		return nil, &serverError{resp.StatusCode, strings.TrimSpace(string(text)), false}
	}
	return nil, &serverError{resp.StatusCode, p.text(), true}
}
