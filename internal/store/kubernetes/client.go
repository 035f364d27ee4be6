package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

const (
	leases      = "/leases" // follows the namespace
	versionPath = "/version"
	// listing is the only kind of request that needs the right to list.
	listing = "list"
)

func (s *Store) path(key string) string { return leases + "/" + objectName(s.prefix, key) }

// answer is an answer of the API server, an error too.
type answer struct {
	status int
	text   []byte
	date   time.Time
	reason string // of an error
	named  string // the object of the error
}

// missing reports whether the object does not exist. A missing API has another reason.
func (a answer) missing() bool {
	return a.status == http.StatusNotFound && a.reason == "NotFound" && a.named == "leases"
}

// ask sends a request and reads the whole answer. Any status but 2xx is an error, too, and so
// is the answer to a write unless it is what was written.
func (s *Store) ask(ctx context.Context, method, path string, body map[string]any) (a answer, err error) {
	resp, err := s.send(ctx, method, path, body)
	if err != nil {
		return a, err
	}
	a.status = resp.StatusCode
	if a.text, err = network.ReadAll(resp); err != nil {
		return a, err
	}
	if a.date, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return a, network.ErrNoDate
	}
	resource, _, _ := strings.Cut(path, "?")
	err = s.judge(&a, method+" "+resource)
	if err == nil && body != nil && !a.confirms(body) {
		err = errNoAnswer
	}
	return a, err
}

// confirms reports whether the answer is the Lease that was sent, with a newer
// resourceVersion. A proxy, a login page or a cache may answer a write, too.
func (a answer) confirms(sent map[string]any) bool {
	var was, now record
	text, err := json.Marshal(sent)
	if err != nil || json.Unmarshal(text, &was) != nil || json.Unmarshal(a.text, &now) != nil {
		return false
	}
	return now.Kind == was.Kind && now.Metadata.Name == was.Metadata.Name && newer(now.Metadata.Version, was.Metadata.Version) &&
		now.Metadata.Annotations[stateAnnotation] == was.Metadata.Annotations[stateAnnotation] && now.Spec.Holder == was.Spec.Holder
}

// newer reports whether a resourceVersion may follow another; "" is that of no object. They are
// numbers in every cluster that passes Kubernetes' tests for conformance.
func newer(version, than string) bool {
	now, errNow := strconv.ParseUint(version, 10, 64)
	was, errWas := strconv.ParseUint(cmp.Or(than, "0"), 10, 64)
	if errNow != nil || errWas != nil {
		return version != "" && version != than
	}
	return now > was
}

// judge returns an error unless the answer is a success. kind is that of the request.
func (s *Store) judge(a *answer, kind string) error {
	if a.status == http.StatusUnauthorized {
		s.credentials.Forget()
	}
	if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || a.status >= 500 {
		e := a.serverError()
		e.allowed = s.accepted.Has(kind)
		return e
	}
	s.accepted.Login()
	s.accepted.Call(kind)
	if a.status >= 200 && a.status <= 299 {
		return nil
	}
	return a.serverError()
}

// serverError reads the Status in an answer.
func (a *answer) serverError() *serverError {
	var status struct {
		Kind, Message, Reason string
		Code                  int
		Details               struct{ Kind string }
	}
	if json.Unmarshal(a.text, &status) != nil || status.Kind != "Status" {
		return &serverError{status: a.status, text: string(bytes.TrimSpace(a.text[:min(len(a.text), 200)]))}
	}
	a.reason, a.named = status.Reason, status.Details.Kind
	if a.status == 0 { // an event of a watch
		a.status = status.Code
	}
	return &serverError{status: a.status, text: status.Message, structured: true}
}

// send sends one request, with a login that it reads again.
func (s *Store) send(ctx context.Context, method, path string, body map[string]any) (*http.Response, error) {
	who, err := s.who(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if body == nil {
		text = nil
	}
	url := who.server + path
	if path != versionPath {
		url = who.server + "/apis/coordination.k8s.io/v1/namespaces/" + who.namespace + path
	}
	r, err := http.NewRequestWithContext(network.Call(ctx), method, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "leaderrun")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if who.token != "" {
		r.Header.Set("Authorization", "Bearer "+who.token)
	}
	return s.http.Do(r)
}

// Names implements [keep.Keeper].
func (k keeper) Names(ctx context.Context) (names []string, err error) {
	for next := ""; ; {
		q := url.Values{"labelSelector": {managedLabel + "=" + managedBy}, "limit": {"500"}, "continue": {next}}
		a, err := k.ask(ctx, "GET", leases+"?"+q.Encode(), nil)
		var page struct {
			Kind     string
			Metadata struct{ Continue string }
			Items    []record
		}
		if err == nil && (json.Unmarshal(a.text, &page) != nil || page.Kind != "LeaseList") {
			err = errNoAnswer
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			names = append(names, k.keyOf(o))
		}
		if next = page.Metadata.Continue; next == "" {
			return names, nil
		}
	}
}
