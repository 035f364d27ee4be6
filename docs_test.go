//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/scripttest"
)

// verdict says of the commands that match an expression, from end to end, how they are
// known to be right.
type verdict struct {
	command string
	holds   func(*try)
}

// The first one that fits a documented command counts.
var verdicts = []verdict{
	// Run, on a host and a store of its own: see try.
	{`(\w+=\S+ )*(/\S+/)?leaderrun -.* -- .+`, (*try).job},
	{`go run \. .*`, (*try).fromSource},
	{`leaderrun status.*`, says(`\bheld\b`)},
	{`leaderrun history .*`, says(`^START .*\n.* 0 `)},
	{`leaderrun release( --key \w+)?`, (*try).handOver},
	{`leaderrun release( --key \w+)? --force( --now)?`, (*try).takeAway},
	{`leaderrun explain( --ttl \w+)?`, (*try).shows},
	{`leaderrun doctor`, says(`(?s)^ok .*ok +rights`)},
	{`(sudo -u cron env -i )?(/usr/bin/)?leaderrun config`, says(`store +redis://`)},
	{`(?s)leaderrun\.yaml:\n.*`, (*try).settings},
	{`leaderrun (--help|man|completion bash)`, says(`leaderrun`)},
	{`leaderrun( --?\w+( K)?)`, (*try).flags},
	{`(?s)(for .*\n\t)?leaderrun check.*`, (*try).inside},
	{`leaderrun install /.*`, (*try).install},
	{`sudo install leaderrun /.*`, (*try).copied},
	{`GODEBUG=inittrace=1 leaderrun version`, says(`init internal/`)},
	{`echo .* >/etc/leaderrun/queue\.env`, (*try).environmentFile},
	{`grep .*`, (*try).counts},

	// Run by somebody else.
	{`go run \./scripts/demo`, in("demo_test.go", `"go", "run", "./scripts/demo"`)},
	{`CGO_ENABLED=0 go build .*`, in("scripts/release", `CGO_ENABLED=0 .*go build -trimpath`)},

	{`sudo dpkg --install .*`, in("scripts/try-package", `dpkg --install`)},

	// Hours of work, or a suite inside of itself: what the words name is there.
	{`(scripts|\.ci)/.*`, (*try).script},
	{`go test.*`, (*try).goTest},

	// Not run, and the page says so: it needs an init, or a cluster.
	{`(systemctl|journalctl) .*`, readOnly("no systemd runs in the tests", "deploy/systemd/leaderrun@.service", `ExecStart=`)},
	{`kubectl create secret generic leaderrun --from-literal=store=.*`,
		readOnly("they were not run on a cluster", "deploy/kubernetes/cronjob.yaml", `name: leaderrun\n +key: store\n`)},
	{`kubectl apply -k deploy/kubernetes`, readOnly("they were not run on a cluster", "deploy/kubernetes/kustomization.yaml", `resources:`)},
}

// quoted is how the commands begin that the documents quote in their sentences.
var quoted = regexp.MustCompile(`^((leaderrun|scripts/\w+|go|grep|sudo|systemctl|journalctl|kubectl) \S|\.ci/run|(CGO_ENABLED|GODEBUG)=\S+ )`)

// TestDocuments takes README.md and docs at their word: each command that they show
// has a verdict, and it holds.
func TestDocuments(t *testing.T) {
	scripttest.Install(t, ".", "testdata/script/bin")
	redis := scripttest.StartRedis(t, "--appendonly", "yes")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []*shown
	for _, name := range append(pages, "README.md", "CONTRIBUTING.md", "SECURITY.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		commands = documented(t, page{name, string(text)}, commands)
	}
	needed := map[string]bool{}
	for _, d := range commands {
		i := slices.IndexFunc(verdicts, func(v verdict) bool { return regexp.MustCompile("^(?:" + v.command + ")$").MatchString(d.command) })
		if i < 0 {
			t.Errorf("%s: no verdict on %s: add one to the table in docs_test.go", d.pages[0].name, d.command)
			continue
		}
		needed[verdicts[i].command] = true
		t.Run(d.command, func(t *testing.T) { verdicts[i].holds(newTry(t, d, redis)) })
	}
	for _, v := range verdicts {
		if !needed[v.command] {
			t.Errorf("no document shows a command like %s", v.command)
		}
	}
}

// shown is a command of the documents.
type shown struct {
	command string
	output  string // the block of text that follows
	pages   []page // that show it
}

type page struct{ name, text string }

// documented adds the commands of a page to all: the lines of indented blocks and of
// blocks in sh, what follows "$ " in a console, what crontabs and units start, what
// reads a file of settings, and what sentences quote. A block says by its language
// which of these it is.
func documented(t *testing.T, p page, all []*shown) []*shown {
	var last *shown
	show := func(command string) {
		command, _, _ = strings.Cut(command, " # ")
		command = strings.TrimSpace(command)
		if i := slices.IndexFunc(all, func(d *shown) bool { return d.command == command }); i >= 0 {
			last = all[i]
		} else {
			last = &shown{command: command}
			all = append(all, last)
		}
		last.pages = append(last.pages, p)
	}
	for i, part := range strings.Split("\n"+p.text, "\n```") {
		if i%2 == 0 {
			for _, m := range matches(`(?m)^    (.*)`, part) {
				show(m[1])
			}
			for _, m := range matches("`([^`]+)`", strings.ReplaceAll(part, `\|`, "|")) {
				if quoted.MatchString(m[1]) {
					show(strings.ReplaceAll(m[1], "\n", " "))
				}
			}
			continue
		}
		language, block, _ := strings.Cut(part+"\n", "\n")
		switch language {
		case "sh":
			if strings.Contains(block, "\n\t") { // one command of several lines
				show(block)
				break
			}
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
				show(line)
			}
		case "console":
			for _, m := range matches(`(?m)^\$ (.*)`, block) {
				show(m[1])
			}
		case "crontab":
			lines := matches(`^((?:\w+=\S+\n)*)(?:[-0-9*/,]+ +){5}(?:root +)?(.*)\n$`, block)
			if lines == nil {
				t.Fatalf("%s: cron takes no\n%s", p.name, block)
			}
			show(strings.ReplaceAll(lines[0][1], "\n", " ") + lines[0][2])
		case "ini":
			verifyUnit(t, block)
			start := matches(`(?m)^ExecStart=(.*)`, block)[0][1]
			for _, m := range matches(`(?m)^Environment=(.*)`, block) {
				start = m[1] + " " + start
			}
			show(start)
		case "yaml":
			show("leaderrun.yaml:\n" + block)
		case "text":
			if last != nil {
				last.output = block
			}
		case "sql fence.sql", "json":
		default:
			if language, name, _ := strings.Cut(language, " "); language == "sh" && name != "" && p.name == "docs/fencing.md" {
				break // TestFencing runs it
			}
			t.Errorf("%s: this block must say what it is, sh, text or another language of docs_test.go:\n%s", p.name, block)
		}
	}
	return all
}

func matches(expression, text string) [][]string {
	return regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
}

// verifyUnit has systemd read a unit, whose program need not be there.
func verifyUnit(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "documented.service")
	text = regexp.MustCompile(`ExecStart=\S+`).ReplaceAllString(text, "ExecStart=/bin/true")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := output(t, "systemd-analyze", "verify", file); strings.Contains(out, file) {
		t.Errorf("%s\n%s", out, text)
	}
}
