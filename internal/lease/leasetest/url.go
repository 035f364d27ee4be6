package leasetest

import (
	"errors"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// ReadsURLs wants each URL to be read as what it is listed with.
func ReadsURLs[T any](t *testing.T, parse func(string) (T, error), all map[string]T) {
	t.Helper()
	for url, want := range all {
		if got, err := parse(url); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
}

// RefusesURLs wants each of the URLs to be refused, and the good one with an empty prefix.
// Their passwords are s3cret.
func RefusesURLs(t *testing.T, open func(url, prefix string) error, good string, urls ...string) {
	t.Helper()
	for _, url := range urls {
		RefusesURL(t, url, open(url, "leaderrun"), "s3cret")
	}
	if open(good, "") == nil {
		t.Error("an empty prefix is taken")
	}
}

// SaysWhy is RefusesURLs for URLs that have what is said of each beside them.
func SaysWhy(t *testing.T, open func(url, prefix string) error, good string, all ...[2]string) {
	t.Helper()
	if open(good, "") == nil {
		t.Error("an empty prefix is taken")
	}
	for _, bad := range all {
		url, says := bad[0], bad[1]
		err := open(url, "leaderrun")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", url, err, says)
			continue
		}
		for _, part := range []string{"sesame", "ses#", "ame@", "cron"} {
			if strings.Contains(url, part) && strings.Contains(err.Error(), part) {
				t.Errorf("%q: the message shows %q: %v", url, part, err)
			}
		}
	}
}

// FuzzURL wants a URL to be read as one that is good, or to be refused without any of it.
// Files are the parameters that have a file read: any, if a URL may name it.
func FuzzURL[T any](f *testing.F, files *regexp.Regexp, parse func(string) (T, error), good func(t *testing.T, text string, got T)) {
	const canary = "cAnArY"
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + canary + after
		if plain, err := url.QueryUnescape(text); files.MatchString(text) || err == nil && files.MatchString(plain) {
			t.Skip()
		}
		got, err := parse(text)
		if err != nil {
			RefusesURL(t, text, err, canary)
			return
		}
		good(t, text, got)
	})
}

// RefusesURL fails the test unless err says for good why the URL of a store is not
// taken and what to do, in one line that is fit for a terminal and has nothing of
// the secret.
func RefusesURL(t *testing.T, url string, err error, secret string) {
	t.Helper()
	var refused *lease.StoreError
	if !errors.As(err, &refused) || !refused.Permanent || refused.Hint == "" {
		t.Fatalf("%q: %#v", url, err)
	}
	said := err.Error() + refused.Hint
	if strings.Contains(strings.ToLower(said), strings.ToLower(secret)) {
		t.Errorf("%q: the error repeats it: %s", url, said)
	}
	if strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q: not fit for a terminal: %q", url, said)
	}
}
