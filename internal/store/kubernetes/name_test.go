package kubernetes

import (
	"regexp"
	"strings"
	"testing"
)

func TestObjectName(t *testing.T) {
	for _, c := range []struct{ prefix, key, want string }{
		{"leaderrun", "nightly", "leaderrun.nightly"},
		{"leaderrun", "db.backup-1", "leaderrun.db.backup-1"},
		{"team-a", "0", "team-a.0"},
		{"leaderrun", "Nightly", "leaderrun-nightly--"},
		{"leaderrun", "team:a/b_c", "leaderrun-team-a-b-c--"},
		{"leaderrun", "-", "leaderrun--"},
		{"leaderrun", "a..b", "leaderrun-a-b--"},
		{"leaderrun", "a--b", "leaderrun-a-b--"},
		{"a.b", "c", "a-b-c--"}, // the same text as a and b.c
		{"__", "//", "key--"},
	} {
		got := objectName(c.prefix, c.key)
		if digest, ok := strings.CutPrefix(got, c.want); !ok || digest != "" && len(digest) != 32 || (digest != "") != strings.HasSuffix(c.want, "--") {
			t.Errorf("%s %s: %s, want %s", c.prefix, c.key, got, c.want)
		}
	}
}

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// Two keys never have the same name, and the API accepts each name.
func FuzzObjectName(f *testing.F) {
	f.Add("leaderrun", "nightly", "leaderrun", "Nightly")
	f.Add("a", "b.c", "a.b", "c")
	f.Add("a", "b", "a", "a-b--187ef4436122d1cc2f40dc2b92f0eba0")
	f.Fuzz(func(t *testing.T, prefix, key, prefix2, key2 string) {
		if strings.Contains(prefix+prefix2+key+key2, " ") || len(prefix+key) > 252 {
			t.Skip()
		}
		name := objectName(prefix, key)
		if !dnsName.MatchString(name) || len(name) > 253 {
			t.Errorf("%q %q: %q is no DNS name", prefix, key, name)
		}
		if (prefix != prefix2 || key != key2) && name == objectName(prefix2, key2) {
			t.Errorf("%q %q and %q %q are both %s", prefix, key, prefix2, key2, name)
		}
	})
}
