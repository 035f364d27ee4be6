package cmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/run"
)

func TestStatusOfAKey(t *testing.T) {
	for _, key := range []string{"nightly", "reports", "backup", "mail", "gone", "odd", "report", "never"} {
		for _, output := range []format{asTable, asJSON} {
			text, err := keyText(t.Context(), storeAtNight(), key, output)
			golden(t, "status-"+key+"."+output.String(), text)
			if free := strings.HasPrefix(key, "report") || key == "gone" || key == "never"; errors.Is(err, errNo) != free || err != nil && !free {
				t.Errorf("%s ends with %v", key, err)
			}
			harmless(t, text, output)
		}
	}
}

func TestStatusOfAllKeys(t *testing.T) {
	for _, output := range []format{asTable, asJSON} {
		text, err := listText(t.Context(), storeAtNight(), output)
		if err != nil {
			t.Error(err)
		}
		golden(t, "status."+output.String(), text)
		harmless(t, text, output)
		if text, err = listText(t.Context(), &fakeStore{}, output); !errors.Is(err, errNo) || text == "" {
			t.Errorf("seven free keys: %q, %v", text, err)
		}
	}
}

// A table without lines could be an answer that was cut off.
func TestStatusWithoutKeys(t *testing.T) {
	for output, want := range map[format]string{asTable: "no keys\n", asJSON: "[]\n"} {
		if text, err := listText(t.Context(), listed{&fakeStore{}}, output); !errors.Is(err, errNo) || text != want {
			t.Errorf("%s: %q, %v", output, text, err)
		}
	}
}

// A damaged key does not hide the others.
func TestStatusOfADamagedKey(t *testing.T) {
	damage := &lease.StoreError{Op: "status", Err: errors.New("WRONGTYPE"), Permanent: true}
	for _, output := range []format{asTable, asJSON} {
		s := storeAtNight()
		s.damaged = map[string]error{"gone": damage}
		text, err := listText(t.Context(), s, output)
		if !errors.Is(err, damage) {
			t.Errorf("it ends with %v", err)
		}
		golden(t, "status-damaged."+output.String(), text)
	}
}

// A collector gets every value; text from the store appears only inside label values.
func TestMetricsOfAllKeys(t *testing.T) {
	s := storeAtNight()
	s.damaged = map[string]error{"gone": &lease.StoreError{Op: "status", Err: errors.New("WRONGTYPE"), Permanent: true}}
	hostile := s.keys["report"]
	hostile.Pause.By, hostile.Pause.Reason = "a\"b\\", "line\nnext \xff\x1b"
	s.keys["report"] = hostile
	text, err := metricsText(t.Context(), s, "")
	if !errors.Is(err, s.damaged["gone"]) {
		t.Error(err)
	}
	golden(t, "status.openmetrics", text)
	if text, err = metricsText(t.Context(), s, "nightly"); err != nil || !strings.Contains(text, "leaderrun_key_held{key_class=\"nightly\",key=\"nightly\"} 1\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A key that was forgotten with its token is not listed.
func TestForgottenKeysAreNotListed(t *testing.T) {
	s := &fakeStore{keys: map[string]lease.Status{"old": {Now: 5}, "paused": {Now: 5, Pause: lease.Pause{Since: 4, Until: 6}}, "token": {Now: 5, Token: 3}}}
	text, err := listText(t.Context(), listed{s}, asTable)
	if strings.Contains(text, "old") || !strings.Contains(text, "paused") || !strings.Contains(text, "token") || !errors.Is(err, errNo) {
		t.Errorf("%s%v", text, err)
	}
}

// slowStore takes a while for each answer.
type slowStore struct {
	lease.Admin
	takes time.Duration
}

func (s slowStore) Keys(ctx context.Context) ([]string, error) {
	return []string{"a", "b", "c"}, s.wait(ctx)
}

func (s slowStore) Inspect(ctx context.Context, key string) (lease.Status, error) {
	return lease.Status{Key: key, Token: 1}, s.wait(ctx)
}

func (s slowStore) wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Each question of a list has its own limit: a list of many keys may take longer.
func TestListOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if text, err := listText(t.Context(), slowStore{takes: run.StoreTimeout - time.Millisecond}, asTable); !errors.Is(err, errNo) {
			t.Error(text, err)
		}
		began := time.Now()
		_, err := listText(t.Context(), slowStore{takes: time.Hour}, asTable)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != run.StoreTimeout {
			t.Errorf("%v after %s", err, took)
		}
	})
}
