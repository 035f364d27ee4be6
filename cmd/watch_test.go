package cmd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// --watch asks at once and then once per interval. A store that is away is an error the
// first time and a warning later.
func TestWatch(t *testing.T) {
	away := errors.New("away")
	for _, tt := range []struct {
		redraws bool
		looks   []string // empty: the store is away
		want    []string
		err     error
	}{
		{false, []string{"a\n", "b\n"}, []string{"0s a\n", "2s \nb\n"}, context.DeadlineExceeded},
		{true, []string{"a\n", "b\n"}, []string{"0s \x1b[H\x1b[2Ja\n", "2s \x1b[H\x1b[2Jb\n"}, context.DeadlineExceeded},
		{true, []string{"a\n", ""}, []string{"0s \x1b[H\x1b[2Ja\n", "2s away", "2s "}, context.DeadlineExceeded},
		{false, []string{""}, nil, away},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			var got []string
			note := func(text string) { got = append(got, time.Since(began).String()+" "+text) }
			n := 0
			w := watcher{tt.redraws, func(text string) error { note(text); return nil }, func(err error) { note(err.Error()) }}
			err := w.watch(ctx, 2*time.Second, func() (string, error) {
				n++
				if text := tt.looks[n-1]; text != "" {
					return text, errNo
				}
				return "", away
			})
			if !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
				t.Errorf("%q: %q, %v", tt.looks, got, err)
			}
		})
	}
}

func TestWatchInterval(t *testing.T) {
	for value, want := range map[string]string{
		"2s": "", "100ms": "", "99ms": "shorter", "5": "unit", "-1s": "negative", "forever": "only --wait",
	} {
		every, err := watchInterval(value, asTable)
		if want == "" && (err != nil || every.String() != value) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %s, %v", value, every, err)
		}
	}
	if _, err := watchInterval("2s", asMetrics); err == nil {
		t.Error("a collector that watches")
	}
}
