package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

var (
	fences   = regexp.MustCompile("(?ms)^```.*?^```$")
	code     = regexp.MustCompile("`[^`\n]+`")
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// Every link of the documents leads to a file that exists and, with a "#", to one
// of its headings.
func TestLinks(t *testing.T) {
	for name, text := range documents(t) {
		text = code.ReplaceAllString(fences.ReplaceAllString(text, ""), "")
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if info, err := os.Stat(target); err != nil || anchor != "" && info.IsDir() {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
			} else if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s: the link %s names no heading of %s", name, m[1], target)
			}
		}
	}
}

// documents returns the texts of all pages by name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	users, err := filepath.Glob("docs/*.md")
	must.Succeed(t, err)
	design, err := filepath.Glob("docs/design/*.md")
	must.Succeed(t, err)
	names := append(users, design...)
	texts := map[string]string{}
	for _, name := range append(names, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") {
		text := must.Read(t, name)
		texts[name] = text
	}
	return texts
}

// anchors returns the anchors that GitHub gives to the headings of a page.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text := must.Read(t, page)
	found := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return found
}
