//go:build linux

package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// A cluster that is restored from a backup does not say so. If a candidate comes first, it is
// granted the key, with a larger token. A holder that listens learns at once that its lease
// is missing, and if it comes first it restores the lease.
func TestRestoredCluster(t *testing.T) {
	for name, holderFirst := range map[string]bool{"the holder first": true, "a candidate first": false} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			s := b.open(t)
			must.Succeed(t, s.Release(bounded(t), grant(t, s, request("k")), lease.Result{Ran: true}))
			b.Kill()
			restore := b.Etcd.Save()
			b.Restart()
			l := grant(t, s, request("k"))
			b.Kill()
			restore()
			b.Restart()
			if !holderFirst {
				networktest.GrantAfter(t, b.open(t), request("k"), l)
			}
			listening := networktest.Start(func() error { return s.Listen(bounded(t), "k") })
			must.Succeed(t, endOf(t, listening))
			if holderFirst {
				networktest.ComesBack(t, s, l)
			} else {
				networktest.Lost(t, s, l)
			}
			denied(t, b.open(t), request("k"))
		})
	}
}

// While the API server's etcd does not answer, nothing is granted or renewed, and nothing is
// lost.
func TestEtcdStops(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	b.Etcd.Stop()
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "kubectl get --raw") // a 504
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	networktest.WantError(t, s.Release(ctx, l, lease.Result{Ran: true}), false, "", "")
	b.Etcd.Cont()
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	networktest.GrantAfter(t, b.open(t), request("k"), l)
}

// An API server may answer 504 and make the write later. It changes the object that was read,
// or nothing.
func TestWriteIsMadeLater(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	late := b.lateWrites(t)
	s := openAs(t, script.WriteKubeconfig(t, late.addr, b.Certs, "leaderrun"), Options{})
	direct := b.open(t)
	l := grant(t, s, request("k"))
	for _, c := range []struct {
		name   string
		before func()
		status int
	}{
		{"nobody came before", func() {}, http.StatusOK},
		{"another renewal came before", func() {
			renew(t, direct, l)
		}, http.StatusConflict},
		{"the release came before", func() {
			must.Succeed(t, direct.Release(bounded(t), l, lease.Result{Ran: true}))
		}, http.StatusConflict},
	} {
		late.keep.Store(true)
		networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "")
		late.keep.Store(false)
		c.before()
		if status := late.send(t); status != c.status {
			t.Errorf("%s: the late write: %d, want %d", c.name, status, c.status)
		}
	}
	networktest.Lost(t, s, l) // it is released
}

// lateWrites is a proxy in front of the API server that holds writes back.
type lateWrites struct {
	addr string
	keep atomic.Bool
	kept chan *http.Request
	to   *httputil.ReverseProxy
}

func (b backend) lateWrites(t *testing.T) *lateWrites {
	t.Helper()
	p := &lateWrites{kept: make(chan *http.Request, 1), to: b.proxy()}
	p.addr = serve(t, b.Certs, p.serve)
	return p
}

// proxy returns a proxy to the API server.
func (b backend) proxy() *httputil.ReverseProxy {
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: b.Addr})
	to.Transport = b.http.Transport
	return to
}

// serve serves HTTPS until the test ends, and returns the address.
func serve(t *testing.T, certs script.Certificates, answer http.HandlerFunc) (addr string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certs.File("server.pem"), certs.File("server.key"))
	must.Succeed(t, err)
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func (p *lateWrites) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || !p.keep.Load() {
		p.to.ServeHTTP(w, r)
		return
	}
	text, _ := io.ReadAll(r.Body)
	again := r.Clone(context.Background())
	again.Body = io.NopCloser(bytes.NewReader(text))
	p.kept <- again
	w.WriteHeader(http.StatusGatewayTimeout)
	_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","message":"Timeout: request did not complete within requested timeout","reason":"Timeout","code":504}`)
}

// send sends the write that was held back.
func (p *lateWrites) send(t *testing.T) (status int) {
	t.Helper()
	select {
	case r := <-p.kept:
		w := httptest.NewRecorder()
		p.to.ServeHTTP(w, r)
		return w.Code
	case <-time.After(networktest.Patience):
		t.Fatal("no write")
		return 0
	}
}

// A proxy or a login page answers writes, and what it says is no answer: nothing is granted or
// renewed. Reads are real.
func TestWriteIsAnsweredBySomethingElse(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var answer atomic.Pointer[http.HandlerFunc]
	to := b.proxy()
	addr := serve(t, b.Certs, func(w http.ResponseWriter, r *http.Request) {
		if other := answer.Load(); other != nil && r.Method != http.MethodGet {
			(*other)(w, r)
			return
		}
		to.ServeHTTP(w, r)
	})
	s := openAs(t, script.WriteKubeconfig(t, addr, b.Certs, "leaderrun"), Options{})
	l := grant(t, s, request("k"))
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	// with answers what was sent, after a change.
	with := func(change func(o, metadata map[string]any)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var o map[string]any
			_ = json.NewDecoder(r.Body).Decode(&o)
			metadata := o["metadata"].(map[string]any)
			if metadata["resourceVersion"] == nil {
				metadata["resourceVersion"] = "0"
			}
			metadata["resourceVersion"] = metadata["resourceVersion"].(string) + "1"
			change(o, metadata)
			_ = json.NewEncoder(w).Encode(o)
		}
	}
	for name, other := range map[string]http.HandlerFunc{
		"a page":     says(http.StatusOK, "<html><title>Log in</title></html>"),
		"an object":  says(http.StatusOK, "{}"),
		"nothing":    says(http.StatusNoContent, ""),
		"a status":   says(http.StatusAccepted, `{"kind":"Status","apiVersion":"v1","status":"Success"}`),
		"no version": with(func(_, metadata map[string]any) { delete(metadata, "resourceVersion") }),
		"the old version": with(func(_, metadata map[string]any) {
			version := metadata["resourceVersion"].(string)
			metadata["resourceVersion"] = version[:len(version)-1]
		}),
		"another name":  with(func(_, metadata map[string]any) { metadata["name"] = "other" }),
		"another kind":  with(func(o, _ map[string]any) { o["kind"] = "ConfigMap" }),
		"another state": with(func(_, metadata map[string]any) { metadata["annotations"] = map[string]any{stateAnnotation: "{}"} }),
		"another leader": with(func(o, _ map[string]any) {
			o["spec"].(map[string]any)["holderIdentity"] = "other"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			answer.Store(&other)
			defer answer.Store(nil)
			networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "something else than a Kubernetes", "stands before it")
			_, err := s.Acquire(bounded(t), request("fresh"))
			if !errors.As(err, new(*lease.SettlingError)) {
				networktest.WantError(t, err, false, "something else than a Kubernetes", "stands before it")
			}
			networktest.WantError(t, s.Release(bounded(t), l, lease.Result{}), false, "something else than a Kubernetes", "stands before it")
		})
	}
	renew(t, s, l)
}

// An API server that has just started may forbid what it allowed before.
func TestForbiddenForAWhile(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var forbids atomic.Bool
	to := b.proxy()
	addr := serve(t, b.Certs, func(w http.ResponseWriter, r *http.Request) {
		if !forbids.Load() {
			to.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","message":"leases is forbidden","reason":"Forbidden","details":{"kind":"leases"},"code":403}`)
	})
	config := script.WriteKubeconfig(t, addr, b.Certs, "leaderrun")
	open := func() networktest.Store { return openAs(t, config, Options{}) }
	networktest.RightsComeBack(t, open, b.open(t), func() { forbids.Store(true) }, func() { forbids.Store(false) }, "forbid")
}

// After a restart the API server no longer knows an old resourceVersion: it answers 200, with
// an error in the body. Changes may have been missed.
func TestExpiredWatch(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	old, err := keeper{s}.Read(bounded(t), "k")
	must.Succeed(t, err)
	for range 5 {
		renew(t, s, l)
	}
	b.Restart()
	must.Await(t, "expiry of the watch, which the server reports once it has read its storage", func() bool {
		over, err := s.watchFrom(bounded(t), "k", old, func(keep.Row) bool { return false })
		return !over && errors.Is(err, errExpired)
	})
}
