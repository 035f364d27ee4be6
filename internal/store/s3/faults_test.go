//go:build linux

package s3

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A renewal succeeds at once after a proxy has cut its idle connection.
func TestCutWhileIdle(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	networktest.CutWhileIdle(t, func(dial network.Dial) networktest.Store {
		s := openAs(t, Options{URL: at(b.Addr), Dialer: dial}, keys)
		s.Instant.Settle = 0
		return s
	})
}

// front is a proxy to the server that answers some requests itself.
func (b backend) front(t *testing.T) (addr string, answer *atomic.Pointer[http.HandlerFunc]) {
	t.Helper()
	answer = &atomic.Pointer[http.HandlerFunc]{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: b.Addr})
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if other := answer.Load(); other != nil && r.Method != http.MethodGet {
			(*other)(w, r)
			return
		}
		to.ServeHTTP(w, r)
	}), answer
}

// A proxy or a login page answers writes, and what it says is no answer: nothing is granted or
// renewed. Reads are real.
func TestWriteIsAnsweredBySomethingElse(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	addr, answer := b.front(t)
	s := openAs(t, Options{URL: at(addr)}, keys)
	s.Instant.Settle = 0
	l := grant(t, s, candidate("k"))
	with := func(status int, etag, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if etag == "the old one" {
				etag = r.Header.Get("If-Match")
			}
			w.Header().Set("ETag", etag)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, other := range map[string]http.HandlerFunc{
		"a page":          with(http.StatusOK, "", "<html><title>Log in</title></html>"),
		"a cached page":   with(http.StatusOK, `"1"`, "<html><title>Log in</title></html>"),
		"nothing":         with(http.StatusNoContent, `"1"`, ""),
		"accepted":        with(http.StatusAccepted, `"1"`, ""),
		"no etag":         with(http.StatusOK, "", ""),
		"the old etag":    with(http.StatusOK, "the old one", ""),
		"a page with 412": with(http.StatusPreconditionFailed, "", "<html>Log in</html>"),
	} {
		t.Run(name, func(t *testing.T) {
			answer.Store(&other)
			defer answer.Store(nil)
			says := func(err error) {
				t.Helper()
				networktest.WantError(t, err, false, "something else than S3", "stands between")
			}
			says(networktest.NotRenewed(t, s, l))
			if name != "the old etag" { // there is none yet
				_, err := s.Acquire(bounded(t), candidate("fresh"))
				says(err)
			}
			says(s.Release(bounded(t), l, lease.Result{}))
		})
	}
	renew(t, s, l)
}

// A server that takes every write, or says so, makes nobody lead.
func TestConditionsAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: b.Addr})
	for name, c := range map[string]struct {
		ignores string
		answer  http.HandlerFunc
	}{
		"If-Match":      {"If-Match", nil},
		"If-None-Match": {"If-None-Match", nil},
		"a sink": {"If-None-Match", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("ETag", fmt.Sprintf(`"%d"`, time.Now().UnixNano()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && c.answer != nil {
					c.answer(w, r)
					return
				}
				if r.Method == http.MethodPut && r.Header.Get(c.ignores) != "" {
					again := unconditional(r)
					to.ServeHTTP(w, again)
					return
				}
				to.ServeHTTP(w, r)
			})
			s := openAs(t, Options{URL: at(addr)}, keys)
			s.Instant.Settle = 0
			key := strings.ReplaceAll(name, " ", "-")
			if c.ignores == "If-Match" { // there is an object already
				grantAndRelease(t, b, key)
			}
			_, err := s.Acquire(bounded(t), candidate(key))
			networktest.WantError(t, err, true, "("+c.ignores+") did not hold", "leaderrun doctor")
		})
	}
}

// grantAndRelease leaves an object for a key.
func grantAndRelease(t *testing.T, b backend, key string) {
	t.Helper()
	s := b.open(t)
	s.Instant.Settle = 0
	must.Succeed(t, s.Release(bounded(t), grant(t, s, candidate(key)), lease.Result{}))
}

// unconditional returns a request without its condition, signed anew.
func unconditional(r *http.Request) *http.Request {
	body, _ := io.ReadAll(r.Body)
	again, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), strings.NewReader(string(body)))
	c, _ := login{env: keys}.find(r.Context())
	sign(again, body, c, "us-east-1", time.Now())
	again.RequestURI = ""
	return again
}

// A write that collides with others is made again.
func TestCollision(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	addr, answer := b.front(t)
	s := openAs(t, Options{URL: at(addr)}, keys)
	s.Instant.Settle = 0
	l := grant(t, s, candidate("k"))
	var refusals atomic.Int32
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refusals.Add(1) == 2 {
			answer.Store(nil)
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, said(codeConflict, ""))
	})
	answer.Store(&refuse)
	if renew(t, s, l); refusals.Load() != 2 {
		t.Errorf("%d refusals", refusals.Load())
	}
	always := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, said(codeConflict, ""))
	})
	answer.Store(&always)
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, codeConflict, "too many requests")
}

// A write whose answer is lost may come late. It changes the object that was read, or nothing.
func TestWriteIsMadeLater(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	addr, answer := b.front(t)
	s, direct := openAs(t, Options{URL: at(addr)}, keys), b.open(t)
	s.Instant.Settle = 0
	l := grant(t, s, candidate("k"))
	late := make(chan *http.Request, 1)
	keeps := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		again := r.Clone(context.Background())
		again.Body = io.NopCloser(strings.NewReader(string(body)))
		late <- again
		panic(http.ErrAbortHandler)
	})
	for _, c := range []struct {
		name   string
		before func()
		status int
	}{
		{"nobody came before", func() {}, http.StatusOK},
		{"another renewal came before", func() { renew(t, direct, l) }, http.StatusPreconditionFailed},
		{"the release came before", func() { must.Succeed(t, direct.Release(bounded(t), l, lease.Result{Ran: true})) }, http.StatusPreconditionFailed},
	} {
		answer.Store(&keeps)
		networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "")
		answer.Store(nil)
		c.before()
		w := httptest.NewRecorder()
		httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: b.Addr}).ServeHTTP(w, <-late)
		if w.Code != c.status {
			t.Errorf("%s: the late write: %d, want %d", c.name, w.Code, c.status)
		}
	}
	networktest.Lost(t, s, l) // it is released
}

// The same state has another ETag each time: a write for the one cannot replace the other.
func TestEqualStatesHaveOtherETags(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	k := keeper{b.open(t)}
	seen := map[any]bool{}
	for range 3 {
		r, err := k.Read(bounded(t), "k")
		must.Succeed(t, err)
		if _, saved, err := k.Swap(bounded(t), r, keep.Effect{}); !saved || err != nil {
			t.Fatalf("saved %t, %v", saved, err)
		}
		r, err = k.Read(bounded(t), "k")
		must.Succeed(t, err)
		seen[r.Version] = true
	}
	if len(seen) != 3 {
		t.Errorf("versions %v", seen)
	}
}

// Rights may be taken while a candidate stands by: it goes on. One that never had them ends.
func TestForbiddenForAWhile(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var forbids atomic.Bool
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: b.Addr})
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !forbids.Load() {
			to.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, said(codeDenied, ""))
	})
	open := func() networktest.Store { return openAs(t, Options{URL: at(addr)}, keys) }
	holder := b.open(t)
	holder.Instant.Settle = 0
	networktest.RightsComeBack(t, open, holder, func() { forbids.Store(true) }, func() { forbids.Store(false) }, codeDenied)
}

// A list has pages, and objects of others beside the keys'.
func TestList(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	s.Instant.Settle = 0
	for _, key := range []string{"b", "a/x:1", "a"} {
		grant(t, s, candidate(key))
	}
	_, err := s.ask(bounded(t), request{method: http.MethodPut, name: s.dir + "notes.txt", body: []byte("x"), header: "X-Amz-Meta-By", value: "test"})
	must.Succeed(t, err)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) { // pages of one object
		q := r.URL.Query()
		q.Set("max-keys", "1")
		again, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.Path+"?"+q.Encode(), nil)
		c, _ := login{env: keys}.find(r.Context())
		sign(again, nil, c, "us-east-1", time.Now())
		httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: b.Addr}).ServeHTTP(w, again)
	})
	for _, s := range []*Store{s, openAs(t, Options{URL: at(addr)}, keys)} {
		if all, err := s.Keys(bounded(t)); err != nil || strings.Join(all, " ") != "a a/x:1 b" {
			t.Errorf("%q, %v", all, err)
		}
	}
}

// What a run, a renewal and a denial cost, as docs/store-s3.md says, on one connection.
func TestCosts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	grantAndRelease(t, b, "k")
	for who, c := range map[string]struct {
		does func(*Store)
		want string
	}{
		"a run": {func(s *Store) {
			must.Succeed(t, s.Release(bounded(t), grant(t, s, candidate("k")), lease.Result{Ran: true}))
		}, "2 GET, 3 PUT"},
		"a renewal":  {func(s *Store) { renew(t, s, grant(t, s, candidate("renewed"))) }, "2 GET, 4 PUT"}, // with the grant of a new key: two kinds of conditions are tried
		"a denial":   {func(s *Store) { denied(t, s, candidate("taken")) }, "1 GET, 0 PUT"},
		"the status": {func(s *Store) { _, err := s.Inspect(bounded(t), "taken"); must.Succeed(t, err) }, "1 GET, 0 PUT"},
	} {
		t.Run(who, func(t *testing.T) {
			holder := b.open(t)
			holder.Instant.Settle = 0
			_, _ = holder.Acquire(bounded(t), candidate("taken"))
			var wire networktest.Wire
			s := openAs(t, Options{URL: at(b.Addr), Dialer: wire.Dial}, keys)
			s.Instant.Settle = 0
			c.does(s)
			sent := "\n" + wire.Sent()
			if got := fmt.Sprintf("%d GET, %d PUT", strings.Count(sent, "GET /leases/"), strings.Count(sent, "PUT /leases/")); got != c.want || wire.Used() != 1 {
				t.Errorf("%s on %d connections, want %s on one", got, wire.Used(), c.want)
			}
		})
	}
}
