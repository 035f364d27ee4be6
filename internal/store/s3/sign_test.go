package s3

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The examples of Amazon's documentation of the signature: Authenticating Requests, Using the
// Authorization Header, Transferring Payload in a Single Chunk.
func TestSignature(t *testing.T) {
	amazon := credential{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		method, path, body string
		header             http.Header
		want               string
	}{
		{"GET", "/test.txt", "", http.Header{"Range": {"bytes=0-9"}}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test%24file.text", "Welcome to Amazon S3.", http.Header{"Date": {"Fri, 24 May 2013 00:00:00 GMT"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}},
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"GET", "/?lifecycle", "", http.Header{}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"GET", "/?max-keys=2&prefix=J", "", http.Header{"User-Agent": {"leaderrun"}}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "https://examplebucket.s3.amazonaws.com"+c.path, nil)
		must.Succeed(t, err)
		r.Header = c.header
		sign(r, []byte(c.body), amazon, "us-east-1", at)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, ",Signature="+c.want) {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
}
