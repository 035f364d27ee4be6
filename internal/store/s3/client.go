package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// request is a request for an object, or for the bucket if it has no name.
type request struct {
	method, name  string
	query         url.Values
	header, value string // the condition of a write
	body          []byte
	// last is called before the last byte of the body is sent; nil: it is sent at once.
	last func()
}

// answer is an answer of the server, an error too.
type answer struct {
	status     int
	code       string // of an error
	etag       string
	page       bool // it is a page for browsers
	date       time.Time
	body       []byte
	credential credential // of the request
}

// Codes of errors.
const (
	codeNoKey     = "NoSuchKey"
	codeUnequal   = "PreconditionFailed"
	codeConflict  = "ConditionalRequestConflict"
	codeSkewed    = "RequestTimeTooSkewed"
	codeNoBucket  = "NoSuchBucket"
	codeDenied    = "AccessDenied"
	codeUnable    = "NotImplemented"
	codeMalformed = "AuthorizationHeaderMalformed"
	codeStalled   = "RequestTimeout" // with the status 400: the body did not come in time
	codeCut       = "IncompleteBody"
)

// changed reports whether a condition did not hold: another client has changed, created or
// deleted the object.
func (a answer) changed() bool { return a.code == codeUnequal || a.code == codeNoKey }

// ask sends a request and reads the whole answer. Any status but 2xx is an error, too.
func (s *Store) ask(ctx context.Context, q request) (a answer, err error) {
	r, err := s.request(ctx, q)
	if err != nil {
		return a, err
	}
	if a.credential, err = s.login.get(ctx); err != nil {
		return a, err
	}
	now := time.Now().Add(time.Duration(s.ahead.Load())) //nolint:forbidigo // the server compares it with its wall clock
	sign(r, q.body, a.credential, s.place.region, now)
	resp, err := s.http.Do(r)
	if err != nil {
		return a, err
	}
	if a.body, err = network.ReadAll(resp); err != nil {
		return a, err
	}
	a.status, a.etag = resp.StatusCode, resp.Header.Get("ETag")
	a.page = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
	a.date, err = http.ParseTime(resp.Header.Get("Date"))
	if err != nil && a.status < 300 {
		return a, network.ErrNoDate
	}
	failure := s.judge(&a, q)
	if err != nil && a.code == codeNoKey { // an answer whose time counts; a proxy's errors have none
		return a, network.ErrNoDate
	}
	return a, failure
}

// request returns an HTTP request. The path is escaped as signatures want it.
func (s *Store) request(ctx context.Context, q request) (*http.Request, error) {
	address := s.place.address()
	if q.name != "" {
		address += "/" + escape(q.name)
	}
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(network.Call(ctx), q.method, address, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "leaderrun")
	if q.last != nil {
		most, end := bytes.NewReader(q.body[:len(q.body)-1]), bytes.NewReader(q.body[len(q.body)-1:])
		r.Body, r.GetBody = io.NopCloser(io.MultiReader(most, pause(q.last), end)), nil
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(q.header, q.value)
	}
	return r, nil
}

// pause is a reader of nothing, which takes its time.
type pause func()

func (p pause) Read([]byte) (int, error) {
	p()
	return 0, io.EOF
}

// address returns the URL of the bucket. A bucket whose name has dots has no certificate of its
// own, and a server at an endpoint may have no name for each bucket.
func (p place) address() string {
	switch {
	case p.endpoint != "":
		return p.endpoint + "/" + p.bucket
	case strings.Contains(p.bucket, "."):
		return "https://s3." + p.region + "." + domain(p.region) + "/" + p.bucket
	}
	return "https://" + p.bucket + ".s3." + p.region + "." + domain(p.region)
}

// host returns the host of the server, for messages.
func (p place) host() string {
	_, host, _ := strings.Cut(p.address(), "://")
	host, _, _ = strings.Cut(host, "/")
	return host
}

// domain returns the domain of AWS' servers in a region.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// escape escapes a name of letters, digits and a few signs for a path.
func escape(name string) string {
	return strings.NewReplacer(":", "%3A", "+", "%2B").Replace(name)
}

// judge returns an error unless the answer is a success.
func (s *Store) judge(a *answer, q request) error {
	if a.status >= 200 && a.status <= 299 {
		s.accepted.Login()
		s.accepted.Call(q.method)
		return nil
	}
	e := &serverError{status: a.status, place: s.place, from: a.credential.from, allowed: s.accepted.Has(q.method)}
	var said struct {
		XMLName               xml.Name `xml:"Error"`
		Code, Message, Region string
	}
	if xml.Unmarshal(a.body, &said) == nil && said.Code != "" {
		e.code, e.text, e.region = said.Code, strings.TrimSpace(said.Message), said.Region
	}
	switch a.code = e.code; {
	case e.code == codeSkewed && !a.date.IsZero():
		s.ahead.Store(int64(time.Until(a.date))) //nolint:forbidigo // as above
	case e.login():
		s.login.Forget()
	}
	return e
}
