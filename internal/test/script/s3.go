//go:build linux

package script

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// S3Server is one test's S3 server: versitygw, with its data in a directory. It listens only on
// loopback and ends with the test, even if the test process is killed.
type S3Server struct {
	// Addr is 127.0.0.1:PORT of a proxy that lets only one write at a time pass, and no read
	// beside it: versitygw itself compares before it writes, and then writes whatever others
	// have written meanwhile. Its own address is Racy.
	Addr, Racy string
	process
}

// The bucket of the tests, and the credentials for it.
const (
	S3Bucket = "leases"
	S3ID     = "leaderrun"
	S3Secret = "sesame-of-leaderrun"
)

// URL returns the address of a store in the bucket.
func (s *S3Server) URL() string { return "s3://" + S3Bucket + "/jobs?endpoint=http://" + s.Addr }

// StartS3 starts an S3 server with a bucket, and waits until it serves. The first test builds it,
// which takes a minute once per build cache. Without the modules that it needs the test is
// skipped, or fails if CI is set.
func StartS3(t testing.TB) *S3Server {
	t.Helper()
	short(t, "an S3 server")
	dir := t.TempDir()
	s := &S3Server{Racy: freeAddr(t), process: process{
		t: t, name: built(t, "s3", "S3SERVER", "github.com/versity/versitygw/cmd/versitygw"),
		env: []string{"ROOT_ACCESS_KEY=" + S3ID, "ROOT_SECRET_KEY=" + S3Secret}, says: []string{"://" + hostOf(t) + ":"},
		Dir: filepath.Join(dir, "data", S3Bucket), // of the bucket's objects
	}}
	must.Succeed(t, os.MkdirAll(s.Dir, 0o700))
	t.Cleanup(s.Kill)
	s.args = []string{"--port", s.Racy, "posix", filepath.Join(dir, "data")}
	s.mustStart()
	s.awaitPort()
	var end func()
	var err error
	s.Addr, end, err = serve(net.JoinHostPort(hostOf(t), "0"), oneAtATime(s.Racy))
	must.Succeed(t, err)
	t.Cleanup(end)
	return s
}

// Restart restarts the server with its data.
func (s *S3Server) Restart() {
	s.t.Helper()
	s.process.Restart()
	s.awaitPort()
}

// awaitPort waits until the server listens, which it does a moment after it has said so.
func (s *S3Server) awaitPort() {
	s.t.Helper()
	if !await(func() bool {
		c, err := net.Dial("tcp", s.Racy)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}) {
		s.t.Fatalf("the S3 server does not listen:\n%s", s.out)
	}
}

// oneAtATime is a proxy to a server that lets one write at a time pass, or several reads. What the
// server does not answer it does not answer either; whoever asked may have gone by then.
func oneAtATime(addr string) http.Handler {
	var mu sync.RWMutex
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	proxy.Transport = &http.Transport{DisableKeepAlives: true} // the server ends each connection
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			mu.RLock()
			defer mu.RUnlock()
		} else {
			mu.Lock()
			defer mu.Unlock()
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

// serve serves HTTP at an address, without waiting for answers at its end.
func serve(addr string, handler http.Handler) (at string, end func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	front := &http.Server{Handler: handler} //nolint:gosec // on loopback
	go func() { _ = front.Serve(l) }()
	return l.Addr().String(), func() { _ = front.Close() }, nil
}
