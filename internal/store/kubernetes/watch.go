package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

const (
	// begins is how long a watch may take to begin.
	begins = 3 * time.Second
	// lasts is how long one watch lasts, in seconds: proxies cut what is idle for five
	// minutes, without a word to this side.
	lasts = "240"
	// shortWatch is how long a watch lasts at least: after a shorter one the next does not
	// begin at once.
	shortWatch = time.Second
	// watching is the kind of a request for a watch.
	watching = "watch"
)

// errExpired says that a watch cannot go on, and may have missed something.
var errExpired = errors.New("the resourceVersion has expired")

// follow passes the key's row to enough, as it is now and after each change, until that is
// true. The API server ends every watch after a while; the next one begins with a read.
func (s *Store) follow(ctx context.Context, op, key string, enough func(cas.Row) bool) error {
	for {
		over, err := s.watch(ctx, key, enough)
		switch {
		case errors.Is(err, errExpired):
			return nil // it may have been the release
		case err != nil:
			return s.storeError(ctx, op, err)
		case over:
			return nil
		}
	}
}

// watch follows a key for one watch, and reports whether enough was true.
func (s *Store) watch(ctx context.Context, key string, enough func(cas.Row) bool) (over bool, err error) {
	first, cancel := context.WithTimeout(ctx, begins)
	defer cancel()
	r, err := keeper{s}.Read(first, key)
	if err != nil || enough(r) {
		return err == nil, err
	}
	return s.watchFrom(ctx, key, r, enough)
}

// watchFrom follows what comes after a row.
func (s *Store) watchFrom(ctx context.Context, key string, r cas.Row, enough func(cas.Row) bool) (over bool, err error) {
	resp, end, err := network.Begin(ctx, begins, func(ctx context.Context) (*http.Response, error) {
		return s.beginWatch(ctx, key, r.Kept.(kept).version)
	})
	if err != nil {
		return false, err
	}
	defer end()
	defer func() { _ = resp.Body.Close() }()
	began, events := s.Now(), json.NewDecoder(resp.Body)
	for {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) && s.Now()-began > shortWatch {
			return false, nil // its time is over
		}
		if err != nil {
			return false, err
		}
		switch e.Type {
		case "BOOKMARK":
			continue
		case "ERROR":
			a := answer{text: e.Object}
			return false, expiredOr(a.serverError())
		case "DELETED":
			r = cas.Row{Value: cas.New(key), Kept: kept{}, Date: r.Date}
		default:
			if r, err = s.row(key, e.Object, r.Date); err != nil {
				return false, err
			}
		}
		if enough(r) {
			return true, nil
		}
	}
}

// beginWatch waits until the API server has begun a watch of what comes after a version.
func (s *Store) beginWatch(ctx context.Context, key, version string) (*http.Response, error) {
	q := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + objectName(s.prefix, key)}, "resourceVersion": {version},
		"allowWatchBookmarks": {"true"}, "timeoutSeconds": {lasts},
	}
	resp, err := s.send(ctx, "GET", leases+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		s.allowed.Store(watching, true)
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode}
	const most = 64 << 10
	if a.text, err = io.ReadAll(io.LimitReader(resp.Body, most)); err != nil {
		return nil, err
	}
	return nil, expiredOr(s.judge(&a, watching))
}

func expiredOr(err error) error {
	var said *serverError
	if errors.As(err, &said) && said.status == http.StatusGone {
		return errExpired
	}
	return err
}
