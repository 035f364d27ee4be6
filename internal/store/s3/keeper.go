package s3

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

// object is the body of a key's object. A state may come back, as by a pause and its end, but no body
// does: equal bodies have equal ETags.
type object struct {
	rules.State
	Write string `json:"write"` // a random word
}

const extension = ".json"

// fileName returns a name without slashes, which servers and disks treat in their own ways. A
// prefix and a key have no plus.
func fileName(name string) string { return strings.ReplaceAll(name, "/", "+") }

func (s *Store) name(key string) string { return s.dir + fileName(key) + extension }

// keeper is a [keep.Keeper].
type keeper struct{ *Store }

// Read implements [keep.Keeper].
func (k keeper) Read(ctx context.Context, key string) (keep.Row, error) {
	a, err := k.ask(ctx, request{method: http.MethodGet, name: k.name(key)})
	r := keep.Row{State: rules.New(key), Now: k.At(a.date.UnixMilli(), "")}
	switch {
	case a.code == codeNoKey:
		return r, nil
	case err != nil:
		return r, err
	case a.etag == "" || a.page:
		return r, errNoAnswer
	}
	r.Version = a.etag
	if r.State, err = k.Parse(key, a.body); err != nil {
		err = &keep.Untrusted{Place: "the object " + k.name(key) + " in the bucket " + k.place.bucket, Err: err}
	}
	return r, err
}

// Swap implements [keep.Keeper].
func (k keeper) Swap(ctx context.Context, r keep.Row, _ keep.Effect) (now keep.Row, saved bool, err error) {
	text, err := json.Marshal(object{r.State, rand.Text()})
	if err != nil {
		return r, false, err
	}
	w := request{method: http.MethodPut, name: k.name(r.Key), body: text}
	w.header, w.value = unchanged(r.Version)
	a, err := k.write(ctx, w)
	switch {
	case a.changed():
		now, err = k.Read(ctx, r.Key)
		return now, false, err
	case a.code == codeConflict: // with a write that may have failed
		return r, false, &keep.Refused{Err: err}
	case err != nil:
		return r, false, err
	}
	return r, true, k.compares(ctx, w)
}

// unchanged returns the header that makes a write conditional: the object has the ETag that was
// read, or there is none.
func unchanged(version any) (header, value string) {
	if etag, ok := version.(string); ok {
		return "If-Match", etag
	}
	return "If-None-Match", "*"
}

// compares sends a write once more. Its condition does not hold any more, so a server that takes
// it does not compare, or has lost the first one, or is something else than S3. That is not asked
// again in the life of a store.
func (k keeper) compares(ctx context.Context, w request) error {
	for !k.accepted.Has(w.header) {
		a, err := k.write(ctx, w)
		switch {
		case err == nil:
			return &ignored{w.header}
		case a.changed():
			k.accepted.Call(w.header)
		case a.code != codeConflict:
			return err
		}
	}
	return nil
}

// write sends a conditional write. An answer that S3 does not give is an error: a login page or a
// cache may answer a write, too.
func (k keeper) write(ctx context.Context, w request) (answer, error) {
	a, err := k.ask(ctx, w)
	if err == nil && (a.status != http.StatusOK || a.etag == "" || a.etag == w.value || len(a.body) > 0) {
		err = errNoAnswer
	}
	return a, err
}

// Names implements [keep.Keeper].
func (k keeper) Names(ctx context.Context) (names []string, err error) {
	for next := ""; ; {
		q := url.Values{"list-type": {"2"}, "prefix": {k.dir}}
		if next != "" {
			q.Set("continuation-token", next)
		}
		var page struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			More     bool     `xml:"IsTruncated"`
			Next     string   `xml:"NextContinuationToken"`
			Contents []struct{ Key string }
		}
		a, err := k.ask(ctx, request{method: http.MethodGet, query: q})
		if err == nil && xml.Unmarshal(a.body, &page) != nil {
			err = errNoAnswer
		}
		if err != nil {
			return nil, err
		}
		for _, c := range page.Contents {
			if name, ok := strings.CutSuffix(c.Key, extension); ok {
				names = append(names, strings.ReplaceAll(strings.TrimPrefix(name, k.dir), "+", "/"))
			}
		}
		if next = page.Next; !page.More || next == "" {
			return names, nil
		}
	}
}
