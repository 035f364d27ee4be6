package location

import (
	"net/url"
	"strings"
	"testing"
)

const kind = Kind("toy store")

func TestHost(t *testing.T) {
	for host, want := range map[string]string{
		"h": "h:7", "h:1": "h:1", "[::1]": "[::1]:7", "[::1]:2": "[::1]:2", "10.0.0.1:3": "10.0.0.1:3",
		"h:1:1": "more than one colon", "::1": "more than one colon", "fe80::1:6379": "more than one colon",
		"": "no host", ":1": "no host", "h:0": "port", "h:x": "cannot be read",
	} {
		got, err := kind.Host(host, "7", "write HOST")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// An unknown parameter is named, but not a part of a password whose ? is not escaped.
func TestUnknownParameter(t *testing.T) {
	for query, want := range map[string]string{"conect_timeout=3": `"conect_timeout"`, "cret=x@h": "cannot have", "cret": "cannot have", "s3cret=": "cannot have", "sEcret=": "cannot have", "a%20b=1": "cannot have"} {
		_, err := kind.Parameters(&url.URL{RawQuery: query}, []string{"connect_timeout"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestLineBreakInAnAddress(t *testing.T) {
	for _, address := range []string{"toy://:s3cret%0a@h", "toy://u%0D:p@h", "toy://h/d%0A"} {
		_, err := Parse(kind, Options{URL: address, Prefix: "p"}, func(string) (string, error) { return "", nil })
		if err == nil || !strings.Contains(err.Error(), "line break") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOddity(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "h": "", "a b": "", "it's": "", " h": "begins with a blank", "h\t": "ends with a blank", "h\n": "line break", "h\r\n": "line break",
		`"h"`: "begins with a quote", `'h'`: "begins with a quote", `h"`: "ends with a quote", `"`: "begins with a quote",
		"\ufeffh": "byte order mark", "\xff\xfeh\x00": "not in UTF-8", "h\x00": "control character",
	} {
		if got := Oddity(value); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
