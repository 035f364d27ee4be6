package kubernetes

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

func TestURL(t *testing.T) {
	leasetest.ReadsURLs(t, parseURL, map[string]place{
		"kubernetes:":                {},
		"kubernetes://jobs":          {namespace: "jobs"},
		"kubernetes://prod/jobs":     {context: "prod", namespace: "jobs"},
		"kubernetes://a@b/jobs":      {context: "a@b", namespace: "jobs"},
		"kubernetes://a%20b%2F/jobs": {context: "a b/", namespace: "jobs"},
		"kubernetes://arn:aws:eks:eu-west-1:1:cluster/prod/jobs": {context: "arn:aws:eks:eu-west-1:1:cluster/prod", namespace: "jobs"},
	})
}

func TestURLIsRefused(t *testing.T) {
	for _, url := range []string{
		"", "kubernetes", "kubernetes:jobs", "kubernetes:/jobs", "kubernetes://", "kubernetes:///jobs", "kubernetes://prod/", "kubernetes://Jobs",
		"kubernetes://a_b", "kubernetes://jobs?s3cret=1", "kubernetes://%zz/jobs", "https://h",
	} {
		_, err := New(Options{URL: url, Prefix: "leaderrun"})
		leasetest.RefusesURL(t, url, err, "s3cret")
	}
	if _, err := open(Options{}, place{}); err == nil {
		t.Error("an empty prefix is taken")
	}
}
