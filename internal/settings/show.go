package settings

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store"
)

// View is a setting as it may be shown: without passwords. It is also the JSON form of
// the verb config. Fields are only ever added.
type View struct{ Name, Value, From string }

// MarshalJSON implements json.Marshaler: a value that is not set is null.
func (v View) MarshalJSON() ([]byte, error) {
	value := &v.Value
	if v.Value == "" {
		value = nil
	}
	return json.Marshal(struct {
		Name  string  `json:"name"`
		Value *string `json:"value"`
		From  string  `json:"from"`
	}{v.Name, value, v.From})
}

// Views returns all settings in order of name, with their values and sources.
func (s *Sources) Views(c Config) []View {
	derived := map[string]string{"ttl": lease.FormatDuration(c.TTL), "renew": lease.FormatDuration(c.Renew), "retry": lease.FormatDuration(c.Retry)}
	views := make([]View, 0, len(all()))
	for _, setting := range all() {
		name := setting.Name
		v := View{Name: name, Value: setting.shownDefault(), From: "default"}
		if setting.Value == "" {
			v.Value = "false"
		}
		switch {
		case name == fileSetting:
			v.Value, v.From = s.File, cmp.Or(s.get(name).source, "default")
		case s.given(name) && !s.overruled(name):
			v.Value, v.From = s.get(name).value, s.get(name).source
		case derived[name] != "":
			v.Value = derived[name]
			if name == "ttl" {
				v.From = cmp.Or(s.get("profile").source, v.From)
			}
		}
		switch name {
		case "store":
			v.Value = store.Redact(v.Value)
		case "ping":
			v.Value = redactPath(v.Value)
		default:
			v.Value = redactWords(v.Value)
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
	return views
}

// redactPath returns a URL without what follows the host: whoever knows that may ping.
func redactPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/***"
}

// redactWords returns a text, such as a hook, without the passwords of its addresses.
func redactWords(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if strings.Contains(word, "://") {
			words[i] = store.Redact(word)
		}
	}
	return strings.Join(words, " ")
}
