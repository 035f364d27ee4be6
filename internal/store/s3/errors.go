package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

var errNoAnswer = errors.New("it answered something else than S3 does")

// ignored says that a server does not compare the condition of a write.
type ignored struct{ header string }

func (e *ignored) Error() string {
	return "it took a write whose condition (" + e.header + ") did not hold: two runs could lead at a time"
}

// serverError is an error that the server, or a proxy in front of it, sent.
type serverError struct {
	status             int
	code, text, region string // code is empty if it has not the form of S3's errors
	place              place
	from               string // of the credentials
	// allowed: a request with the same method was carried out before.
	allowed bool
}

func (e *serverError) Error() string { return e.code + ": " + e.text }

// login reports whether the error concerns who asks.
func (e *serverError) login() bool {
	switch e.code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidSecurity":
		return true
	}
	return e.status == http.StatusUnauthorized && e.code != ""
}

const (
	hintRights = "it needs s3:GetObject and s3:PutObject on the objects, and s3:ListBucket on the bucket: docs/store-s3.md has a policy"
	hintLogin  = "see whose they are, and whether they are still valid: aws sts get-caller-identity"
	hintOther  = "check the endpoint and the region in the store's URL, and what stands between this host and S3"
	hintBusy   = "see how the server is, and whether something else sends it too many requests"
	hintServer = "use S3 itself, or a server that compares: docs/store-s3.md names some, and leaderrun doctor tries yours"
	hintObject = "delete it, as with aws s3 rm, once no command of this key runs"
	hintClock  = "set the clock of this host"
)

var words = network.Words{
	Server: "S3", CA: "ca=FILE", Client: "cert=FILE&key=FILE", Name: "server_name=NAME", NoTLS: "write http:// in the endpoint, or let it speak TLS", Other: hintOther,
}

// problem returns what is known about the error.
func (e *serverError) problem() *network.Known {
	said := e.text + " (" + e.code + ")"
	switch {
	case e.code == "":
		return &network.Known{Text: fmt.Sprintf("%s (HTTP status %d)", errNoAnswer, e.status), Hint: hintOther}
	case e.login():
		return &network.Known{Text: "it does not accept the credentials from " + e.from + ": " + said, Permanent: true, Login: true, Hint: hintLogin}
	case e.code == codeDenied:
		return &network.Known{Text: said + ", with the credentials from " + e.from, Permanent: !e.allowed, Hint: hintRights}
	case e.code == codeSkewed:
		return &network.Known{Text: said, Hint: hintClock}
	case e.code == codeNoBucket:
		return &network.Known{Text: "there is no bucket " + e.place.bucket, Permanent: true, Login: true, Hint: "correct the bucket in the store's URL, or make it: aws s3 mb s3://" + e.place.bucket}
	case e.status == http.StatusMovedPermanently || e.code == codeMalformed && e.region != "":
		return &network.Known{Text: "the bucket is not in the region " + e.place.region + ": " + said, Permanent: true, Hint: "add ?region=REGION to the store's URL: " + lease.Readable(orUnknown(e.region))}
	case e.code == codeUnable:
		return &network.Known{Text: "it cannot compare conditions of writes: " + said, Permanent: true, Hint: hintServer}
	case e.status >= 500 || e.status == http.StatusTooManyRequests || e.status == http.StatusConflict || e.status == http.StatusRequestTimeout || e.code == codeStalled || e.code == codeCut:
		return &network.Known{Text: said, Hint: hintBusy}
	}
	return &network.Known{Text: said, Permanent: !e.allowed, Hint: hintOther}
}

func orUnknown(region string) string {
	if region == "" {
		return "aws s3api get-bucket-location says which"
	}
	return "it is in " + region
}

func (s *Store) storeError(ctx context.Context, op string, err error) *lease.StoreError {
	return words.StoreError(ctx, op, "S3 at "+s.place.host(), err, known(err), &s.accepted)
}

// known returns what is known about an error that the server sent or this package found.
func known(err error) *network.Known {
	if said, ok := errors.AsType[*serverError](err); ok {
		return said.problem()
	}
	k := &network.Known{Text: err.Error()}
	switch {
	case errors.As(err, new(*keep.Untrusted)):
		k.Permanent, k.Hint = true, rules.Hint(err, hintObject)
	case errors.As(err, new(*ignored)):
		k.Permanent, k.Hint = true, hintServer
	case errors.Is(err, errNoAnswer), errors.Is(err, keep.ErrNotSaved):
		k.Hint = hintOther
	default:
		return nil
	}
	return k
}
