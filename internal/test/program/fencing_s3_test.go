//go:build linux

package program

import (
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// bucket has one object, and takes conditions as S3 does.
type bucket struct {
	*httptest.Server
	config string              // a file for curl
	before func(*http.Request) // each answer

	mu     sync.Mutex
	object []byte // nil: none
}

// signed is what S3 wants of an Authorization; that curl signs correctly is not checked.
var signed = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=id/\d+/here/s3/aws4_request, SignedHeaders=.*;x-amz-content-sha256;`)

func newBucket(t *testing.T) *bucket {
	b := &bucket{before: func(*http.Request) {}, config: file(t, "aws-sigv4 = \"aws:amz:here:s3\"\nuser = \"id:secret\"\n")}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bucket) content() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.object)
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	b.before(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	etag := fmt.Sprintf("\"%x\"", md5.Sum(b.object))
	is, isNot := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case err != nil || !signed.MatchString(r.Header.Get("Authorization")) || r.Header.Get("X-Amz-Content-Sha256") != "UNSIGNED-PAYLOAD":
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet && b.object == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etag)
		_, _ = w.Write(b.object)
	case is != "" && (b.object == nil || is != etag), isNot == "*" && b.object != nil:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		b.object = sent
	}
}

// A leader whose PUT is on its way while a newer one claims is refused, and what it has written
// while the newer one read is what that one finds.
func TestFencingS3Race(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "fenced-s3")
	must.Succeed(t, os.WriteFile(program, []byte(fencing(t)["fenced-s3"]), 0o700))
	as := func(token string, args ...string) (string, error) {
		cmd := exec.Command(program, append([]string{b.URL + "/report"}, args...)...)
		cmd.Env = append(os.Environ(), "LEADERRUN_TOKEN="+token, "SINK="+b.config)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// between does something before the next PUT is carried out.
	between := func(do func()) {
		b.before = func(r *http.Request) {
			if r.Method == http.MethodPut {
				b.before = func(*http.Request) {}
				do()
			}
		}
	}
	for _, object := range [][]byte{nil, []byte("16\nold\n")} {
		b.object = object
		between(func() {
			if out, err := as("17", file(t, "late\n")); err != nil {
				t.Errorf("%v, %s", err, out)
			}
		})
		if out, err := as("18"); err != nil || b.content() != "18\nlate\n" {
			t.Errorf("a claim that finds a write after %q: %v, %s, %q", object, err, out, b.content())
		}
	}
	b.object = []byte("17\nold\n")
	between(func() {
		if out, err := as("18"); err != nil {
			t.Errorf("%v, %s", err, out)
		}
	})
	if out, err := as("17", file(t, "late\n")); err == nil || !strings.Contains(out, "17 is refused, 18 has claimed") || b.content() != "18\nold\n" {
		t.Errorf("a write that a claim overtakes: %v, %s, %q", err, out, b.content())
	}
}
