package s3

import (
	"crypto/tls"
	"os"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// variables returns an environment with nothing but these.
func variables(of map[string]string) env { return func(name string) string { return of[name] } }

func TestURLs(t *testing.T) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	leasetest.ReadsURLs(t, parseURL, map[string]place{
		"s3://leases":  {bucket: "leases", tls: secure},
		"s3://leases/": {bucket: "leases", tls: secure},
		"s3://my.leases-1/team_a/jobs/?region=eu-north-1": {bucket: "my.leases-1", prefix: "team_a/jobs/", region: "eu-north-1", tls: secure},
		"s3://leases?endpoint=http://127.0.0.1:9000":      {bucket: "leases", endpoint: "http://127.0.0.1:9000", tls: secure},
		"s3://leases?endpoint=https://[::1]:9000/":        {bucket: "leases", endpoint: "https://[::1]:9000", tls: secure},
		"s3://leases?endpoint=https%3A%2F%2Fminio.example&server_name=s3": {
			bucket: "leases", endpoint: "https://minio.example", tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "s3"},
		},
	})
	leasetest.RefusesURLs(t, func(url, prefix string) error {
		_, err := open(Options{URL: url, Prefix: prefix}, variables(nil))
		return err
	}, "s3://leases?region=eu-north-1",
		"s3:leases", "s3:/leases", "s3://", "s3:///jobs", "s3://ab", "s3://a,b", "s3://lea%73es", "s3://leases:9000/jobs", "s3://leases/a//b", "s3://leases/a/../b", "s3://leases/a%20b",
		"s3://AKIA:s3cret@leases", "s3://s3cret@leases", "s3://leases/a@s3cret", "s3://leases#s3cret", "s3://leases/%zz",
		"s3://leases?key_id=s3cret", "s3://leases?region=", "s3://leases?region=s3cret%20", "s3://leases?region=a&region=b",
		"s3://leases?endpoint=s3cret", "s3://leases?endpoint=s3cret:9000", "s3://leases?endpoint=ftp://s3cret", "s3://leases?endpoint=https://s3cret/leases", "s3://leases?endpoint=https://u:s3cret@h", "s3://leases?endpoint=https://h:0",
		"s3://leases?ca=/does/not/exist&region=r",
		"s3://leases", // no region
	)
}

// Where the bucket is, by the address, the variables and the profile, in this order.
func TestPlace(t *testing.T) {
	config := t.TempDir() + "/config"
	must.Succeed(t, os.WriteFile(config, []byte("[default]\nregion = eu-west-1\n[profile lab]\nregion=lab-1\nendpoint_url = https://lab.example\n"), 0o600))
	for _, c := range []struct{ address, variables, want string }{
		{"s3://leases?region=eu-north-1", "", "https://leases.s3.eu-north-1.amazonaws.com"},
		{"s3://leases?region=cn-north-1", "", "https://leases.s3.cn-north-1.amazonaws.com.cn"},
		{"s3://my.leases?region=eu-north-1", "", "https://s3.eu-north-1.amazonaws.com/my.leases"},
		{"s3://leases", "", "https://leases.s3.eu-west-1.amazonaws.com"},
		{"s3://leases", "AWS_DEFAULT_REGION=us-west-2", "https://leases.s3.us-west-2.amazonaws.com"},
		{"s3://leases", "AWS_DEFAULT_REGION=us-west-2 AWS_REGION=us-west-1", "https://leases.s3.us-west-1.amazonaws.com"},
		{"s3://leases", "AWS_PROFILE=lab", "https://lab.example/leases lab-1"},
		{"s3://leases", "AWS_PROFILE=lab AWS_ENDPOINT_URL=http://h:1", "http://h:1/leases lab-1"},
		{"s3://leases", "AWS_ENDPOINT_URL=http://h:1 AWS_ENDPOINT_URL_S3=http://h:2", "http://h:2/leases eu-west-1"},
		{"s3://leases?endpoint=https://h&region=x", "AWS_PROFILE=lab AWS_ENDPOINT_URL=http://h:1", "https://h/leases x"},
		{"s3://leases?endpoint=https://h", "AWS_CONFIG_FILE=/does/not/exist", "https://h/leases us-east-1"},
		{"s3://leases", "AWS_PROFILE=gone", "AWS' files have no profile gone"},
		{"s3://leases", "AWS_ENDPOINT_URL=h:1", "AWS_ENDPOINT_URL"},
		{"s3://leases", "AWS_REGION=a/b", "names no region"},
	} {
		of := map[string]string{"AWS_CONFIG_FILE": config}
		for _, v := range strings.Fields(c.variables) {
			name, value, _ := strings.Cut(v, "=")
			of[name] = value
		}
		p, err := parseURL(c.address)
		must.Succeed(t, err)
		err = p.complete(variables(of))
		if got := p.address() + " " + p.region; err == nil && !strings.HasPrefix(got, c.want) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %s, %v; want %s", c.address, c.variables, got, err, c.want)
		}
	}
}

// Every key has an object of its own, and none is that of the doctor.
func TestNames(t *testing.T) {
	s, err := open(Options{URL: "s3://leases/jobs?region=r", Prefix: "team/a"}, variables(nil))
	must.Succeed(t, err)
	for key, want := range map[string]string{"nightly": "jobs/team+a/nightly.json", "a/b:c": "jobs/team+a/a+b:c.json", "..": "jobs/team+a/...json"} {
		if got := s.name(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
