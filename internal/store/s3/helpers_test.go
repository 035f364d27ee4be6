//go:build linux

package s3

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

const prefix = "leaderrun"

// keys are the credentials for the server of a test.
var keys = variables(map[string]string{"AWS_ACCESS_KEY_ID": script.S3ID, "AWS_SECRET_ACCESS_KEY": script.S3Secret})

// backend is a server under test.
type backend struct{ *script.S3Server }

func newBackend(t testing.TB) backend {
	t.Helper()
	return backend{script.StartS3(t)}
}

// at returns the address of a store at a server.
func at(addr string) string { return "s3://" + script.S3Bucket + "/jobs?endpoint=http://" + addr }

func (b backend) open(t testing.TB) *Store {
	t.Helper()
	return openAs(t, Options{URL: at(b.Addr)}, keys)
}

func openAs(t testing.TB, o Options, e env) *Store {
	t.Helper()
	o.Prefix = prefix
	s, err := open(o, e)
	return networktest.Opened(t, s, err)
}

// file returns the file in which the server has the object of a key.
func (b backend) file(key string) string {
	return filepath.Join(b.Dir, "jobs", prefix, fileName(key)+extension)
}

// put puts a body in the place of a key's.
func (b backend) put(t *testing.T, s *Store, key, body string) {
	t.Helper()
	_, err := s.ask(bounded(t), request{method: "PUT", name: s.name(key), body: []byte(body), header: "X-Amz-Meta-By", value: "test"})
	must.Succeed(t, err)
}

// wipe deletes all objects.
func (b backend) wipe(t *testing.T) {
	t.Helper()
	must.Succeed(t, os.RemoveAll(filepath.Join(b.Dir, "jobs")))
}

// Helpers that the tests of all networked stores use.
var (
	candidate, grant, renew, denied = networktest.Request, networktest.Grant, networktest.Renew, networktest.Denied
	bounded                         = networktest.Bounded
)
