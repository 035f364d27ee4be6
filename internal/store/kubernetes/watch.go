package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

const (
	// beginLimit is how long it may take to begin a watch.
	beginLimit = 3 * time.Second
	// watchSeconds is how long one watch lasts, in seconds: proxies cut connections that are
	// idle for five minutes, without telling the client.
	watchSeconds = "240"
	// shortWatch is how long a watch has to last, or its end is an error, after which the
	// next one does not begin at once.
	shortWatch = time.Second
	// watchKind is the kind of a request for a watch.
	watchKind = "watch"
)

// errExpired says that a watch cannot go on, and may have missed changes.
var errExpired = errors.New("the resourceVersion has expired")

// hear follows the row of key: each change may be what the bell stands for. The API server ends
// every watch after a while; the next one begins with a read.
func (s *Store) hear(ctx context.Context, bell keep.Bell, key string, enough func(keep.Row) bool) error {
	for {
		over, err := s.watch(ctx, key, enough)
		switch {
		case errors.Is(err, errExpired):
			return nil // it may have been the release
		case err != nil:
			return s.storeError(ctx, bell.Op(), err)
		case over:
			return nil
		}
	}
}

// watch follows a key for the time of one watch, and reports whether enough was true.
func (s *Store) watch(ctx context.Context, key string, enough func(keep.Row) bool) (over bool, err error) {
	first, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	r, err := keeper{s}.Read(first, key)
	if err != nil || enough(r) {
		return err == nil, err
	}
	return s.watchFrom(ctx, key, r, enough)
}

// watchFrom follows the changes after a row.
func (s *Store) watchFrom(ctx context.Context, key string, r keep.Row, enough func(keep.Row) bool) (over bool, err error) {
	resp, end, err := network.Begin(ctx, beginLimit, func(ctx context.Context) (*http.Response, error) {
		return s.beginWatch(ctx, key, r.Kept.(kept).version)
	})
	if err != nil {
		return false, err
	}
	defer end()
	defer func() { _ = resp.Body.Close() }()
	date, began, events := r.Kept.(kept).date, s.Now(), json.NewDecoder(resp.Body)
	for {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) && s.Now()-began > shortWatch {
			return false, nil // the regular end
		}
		if err != nil {
			return false, err
		}
		switch e.Type {
		case "ERROR":
			a := answer{text: e.Object}
			return false, expiredOr(a.serverError())
		case "DELETED":
			r = keep.Row{State: rules.New(key), Kept: kept{date: date}, Now: r.Now}
		default:
			if r, err = s.row(key, e.Object, date); err != nil {
				return false, err
			}
		}
		if enough(r) {
			return true, nil
		}
	}
}

// beginWatch waits until the API server has begun a watch of the changes after a version. It asks for
// no bookmarks: if there is no Lease yet, those need an etcd that reports its progress.
func (s *Store) beginWatch(ctx context.Context, key, version string) (*http.Response, error) {
	q := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + objectName(s.prefix, key)}, "resourceVersion": {version},
		"timeoutSeconds": {watchSeconds},
	}
	resp, err := s.send(ctx, "GET", leases+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		s.accepted.Call(watchKind)
		return resp, nil
	}
	a := answer{status: resp.StatusCode}
	if a.text, err = network.ReadAll(resp); err != nil {
		return nil, err
	}
	return nil, expiredOr(s.judge(&a, watchKind))
}

func expiredOr(err error) error {
	var said *serverError
	if errors.As(err, &said) && said.status == http.StatusGone {
		return errExpired
	}
	return err
}
