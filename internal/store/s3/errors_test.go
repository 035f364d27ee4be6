//go:build linux

package s3

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

// calls are the calls of a store that ask its server: nobody waits or listens there.
func calls(s *Store) networktest.Calls {
	all := networktest.CallsOf(s)
	delete(all, "wait")
	delete(all, "listen")
	return all
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	networktest.EndWithContext(t, calls(openAs(t, Options{URL: at(networktest.NeverAnswers(t))}, keys)))
	networktest.Unreachable(t, "S3 at h:9000", "the store's URL", func(dial network.Dial) *Store {
		return openAs(t, Options{URL: at("h:9000"), Dialer: dial}, keys)
	}, calls)
}

// serve serves HTTP until the test ends, and returns the address.
func serve(t *testing.T, answer http.HandlerFunc) (addr string) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// said is an error in the form of S3.
func said(code, more string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>` + "\x0a" + ` it is so </Message>` + more + `<RequestId>1</RequestId></Error>`
}

// The server is none of S3, or cannot answer now.
func TestAnswersOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		text       string
		permanent  bool
		says, hint string
	}{
		"a web page":             {200, "<html>s3cret</html>", false, "something else", "the endpoint"},
		"an error of a proxy":    {502, "bad gateway", false, "HTTP status 502", "the endpoint"},
		"not found at all":       {404, "404 page not found", false, "HTTP status 404", "the endpoint"},
		"a redirect elsewhere":   {302, "", false, "HTTP status 302", "the endpoint"},
		"no such bucket":         {404, said("NoSuchBucket", ""), true, "no bucket leases", "aws s3 mb s3://leases"},
		"no rights":              {403, said("AccessDenied", ""), true, "it is so (AccessDenied), with the credentials from the environment", "s3:ListBucket"},
		"an unknown key":         {403, said("InvalidAccessKeyId", ""), true, "credentials from the environment: it is so", "get-caller-identity"},
		"a wrong secret":         {403, said("SignatureDoesNotMatch", "<StringToSign>s3cret</StringToSign>"), true, "credentials from the environment", "get-caller-identity"},
		"a session that is over": {400, said("ExpiredToken", ""), true, "credentials from the environment", "get-caller-identity"},
		"another region":         {301, said("PermanentRedirect", "<Endpoint>leases.s3-eu-west-1.amazonaws.com</Endpoint>"), true, "not in the region us-east-1", "get-bucket-location"},
		"a region that it names": {400, said("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"), true, "not in the region us-east-1", "it is in eu-west-1"},
		"too many requests":      {503, said("SlowDown", ""), false, "SlowDown", "too many requests"},
		"an error of its own":    {500, said("InternalError", ""), false, "InternalError", "how the server is"},
		"no conditions":          {501, said("NotImplemented", ""), true, "cannot compare conditions", "leaderrun doctor"},
		"another clock":          {403, said("RequestTimeTooSkewed", ""), false, "RequestTimeTooSkewed", "clock of this host"},
		"a body that stalled":    {400, said("RequestTimeout", ""), false, "RequestTimeout", "how the server is"},
		"a bad request":          {400, said("InvalidRequest", ""), true, "InvalidRequest", "the endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.status == http.StatusBadGateway { // HAProxy's own pages have none
					w.Header()["Date"] = nil
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.text))
			})
			networktest.WantError(t, networktest.Refused(t, openAs(t, Options{URL: at(addr)}, keys)), c.permanent, c.says, c.hint)
		})
	}
	t.Run("no date", func(t *testing.T) {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil })
		networktest.WantError(t, networktest.Refused(t, openAs(t, Options{URL: at(addr)}, keys)), true, "has no Date", "stands between")
	})
}

// A host whose clock is wrong signs by the server's clock, once a request was refused for it.
func TestClockOfThisHost(t *testing.T) {
	t.Parallel()
	server := time.Now().Add(20 * time.Minute)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", server.UTC().Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if off := server.Sub(signed).Abs(); err != nil || off > 15*time.Minute {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, said(codeSkewed, ""))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, said(codeNoKey, ""))
	})
	s := openAs(t, Options{URL: at(addr)}, keys)
	networktest.WantError(t, networktest.Refused(t, s), false, codeSkewed, "")
	if _, err := s.Inspect(bounded(t), "k"); err != nil {
		t.Error(err)
	}
}
