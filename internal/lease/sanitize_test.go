package lease

import (
	"slices"
	"strings"
	"testing"
)

func TestValidKey(t *testing.T) {
	for key, want := range map[string]bool{
		"a": true, "a/B:c.d_e-9": true, "..": true, strings.Repeat("x", 200): true,
		"": false, strings.Repeat("x", 201): false, "a b": false, "a+b": false, "a\n": false, "ä": false, "{a}": false, "\xff": false,
	} {
		if ValidKey(key) != want {
			t.Errorf("%q: %t", key, !want)
		}
	}
}

func TestFiled(t *testing.T) {
	run := func(token int64) Run {
		h := Holder("host/1/" + strings.Repeat("a", 32))
		return Run{Token: token, Host: "host", Holder: h}
	}
	nobody, elsewhere := run(4), run(5)
	nobody.Holder = "host/1/\x1b[2J"
	elsewhere.Host = "\x1b[2J"
	if got, want := ValidRuns([]Run{run(1), nobody, run(3), elsewhere, run(0), run(-7), run(2)}), []Run{run(3), run(2), run(1)}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	var many []Run
	for token := range int64(50) {
		many = append(many, run(token+1))
	}
	if got := ValidRuns(many); len(got) != MaxRuns || got[0].Token != 50 || many[0].Token != 1 {
		t.Errorf("%d runs, the newest %+v", len(got), got[0])
	}
	if ValidRuns(nil) != nil {
		t.Error("runs of none")
	}
}

// A mask must not tell the password: in a word, in what every server says, at the name of a user.
func TestMaskTellsNothing(t *testing.T) {
	for text, passwords := range map[string][]string{
		"WRONGPASS invalid username-password pair or user is disabled.":               {"A", "PASS", "invalid", "password", "user", "pair"},
		`password authentication failed for user "postgres" (28P01)`:                  {"postgres", "password", "user"},
		`database "app" does not exist (3D000)`:                                       {"app"},
		"Access denied for user 'root'@'localhost' (using password: YES) (1045)":      {"root", "localhost", "YES"},
		"AUTH <password> called without any password configured for the default user": {"called", "password"},
		"authentication failed, invalid user ID or password":                          {"failed"},
	} {
		for _, password := range passwords {
			if got := Readable(text, password); got != text {
				t.Errorf("%s: %s", password, got)
			}
		}
	}
}

func TestReadable(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"no such command AUTH s3cret", "no such command AUTH ***"},
		{"unknown command 's3cret'", "unknown command '***'"},
		{"s3cret", "***"},
		{"WRONGs3cretPASS as3cret s3cret1 s3cret", "WRONGs3cretPASS as3cret s3cret1 ***"},
		{"a\r\nb\x1b[31m\u202ec", "a  b [31m c"},
		{strings.Repeat("ä", 201), strings.Repeat("ä", 200) + "..."},
	} {
		if got := Readable(tt.text, "", "s3cret"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}
