//go:build linux

package etcd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// backend is an etcd under test, with a second client that reads and damages its data.
type backend struct {
	*script.EtcdServer
}

func newBackend(t *testing.T, args ...string) backend { return backend{script.StartEtcd(t, args...)} }

func (b backend) open(t *testing.T) *Store {
	t.Helper()
	return openWith(t, Options{URL: "etcd://" + b.Addr})
}

func openWith(t *testing.T, o Options) *Store {
	t.Helper()
	o.Prefix = prefix
	s, err := New(o)
	return networktest.Opened(t, s, err)
}

// Helpers that the tests of all networked stores use.
var (
	request, grant, renew, denied = networktest.Request, networktest.Grant, networktest.Renew, networktest.Denied
	bounded, awaits, endOf        = networktest.Bounded, must.Await, networktest.EndOf
)

// ask sends a request to the gateway, which must answer.
func (b backend) ask(t *testing.T, path string, question any) map[string]any {
	t.Helper()
	body, err := json.Marshal(question)
	must.Succeed(t, err)
	resp, err := http.Post("http://"+b.Addr+path, "application/json", bytes.NewReader(body))
	must.Succeed(t, err)
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v, %v", path, resp.Status, answer, err)
	}
	return answer
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func (b backend) put(t *testing.T, key, value string) {
	t.Helper()
	b.ask(t, "/v3/kv/put", map[string]string{"key": encoded(key), "value": encoded(value)})
}

// wipe deletes all keys.
func (b backend) wipe(t *testing.T) {
	t.Helper()
	b.ask(t, "/v3/kv/deleterange", map[string]string{"key": encoded("\x00"), "range_end": encoded("\x00")})
}

// count returns the number of keys.
func (b backend) count(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(b.ask(t, "/v3/kv/range", map[string]any{"key": encoded("\x00"), "range_end": encoded("\x00"), "count_only": true})["count"])
}
