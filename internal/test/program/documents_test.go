//go:build linux

package program

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// verdict says how the documented commands that match an expression are checked.
type verdict struct {
	command string
	holds   func(*try)
}

// The first match counts.
var verdicts = []verdict{
	// Run, on a host and a store of its own: see try.
	{`(\w+=\S+ )*(/\S+/)?leaderrun -.* -- .+`, (*try).job},
	{`go run \. .*`, (*try).fromSource},
	{`leaderrun status -o openmetrics`, says(`^leaderrun_key_held\{.*\} 1$`)},
	{`leaderrun why .*`, says(`has led for`)},
	{`leaderrun why`, says(`all is well`)},
	{`leaderrun status.*`, says(`\bheld\b`)},
	{`leaderrun watch .*`, in("testdata/script/run/watch.txtar", `leaderrun watch`)},
	{`leaderrun hold .*`, in("testdata/script/elector/hold.txtar", `leaderrun hold --wait forever`)},
	{`\{"key":"queue","leading":false,.*`, in("internal/observe/listen_test.go", `"leading":false,"leader":\{"host"`)},
	{`leaderrun history .*`, says(`^START .*\n.* 0 `)},
	{`leaderrun release( --key \w+)?`, (*try).handOver},
	{`leaderrun release( --key \w+)? --force( --now)?`, (*try).takeAway},
	{`leaderrun pause .*`, says(`paused until .* goes on$`)},
	{`leaderrun resume .*`, (*try).resumed},
	{`leaderrun forget .*`, (*try).forgotten},
	{`leaderrun explain( --ttl \w+)?`, (*try).shows},
	{`leaderrun doctor`, says(`(?s)^ok .*ok +rights`)},
	{`(sudo -u USER env -i HOME=/home/USER )?(/usr/bin/)?leaderrun config`, says(`store +redis://`)},
	{`/bin/sh -c 'exec leaderrun .*'`, (*try).timer},
	{`(?s)leaderrun\.yaml:\n.*`, (*try).settings},
	{`leaderrun (--help|man|version|completion bash)`, says(`leaderrun`)},
	{`leaderrun( --?\w+( K)?)`, (*try).flags},
	{`(?s)(for .*\n\t)?leaderrun check.*`, (*try).inside},
	{`leaderrun install /.*`, (*try).install},
	{`sudo install leaderrun /.*`, (*try).copied},
	{`echo .* >/etc/leaderrun/queue\.env`, (*try).environmentFile},

	// Run elsewhere.
	{`CGO_ENABLED=0 go build .*`, in("scripts/release", `CGO_ENABLED=0 .*go build -trimpath`)},
	{`go install .*`, in("internal/test/install_test.go", `func TestInstall`)},

	// Not run, since they take hours or contain this test: the named script and its
	// options must exist.
	{`(\w+=\S+ )*(scripts|\.ci)/.*`, (*try).script},
	{`go test.*`, (*try).goTest},

	// Not run, and the page says so: it needs a daemon, an init, or a cluster.
	{`(systemctl|journalctl) .*`, in("scripts/try-systemd", `systemctl enable --quiet --now leaderrun@queue`)},
	{`kubectl create secret generic leaderrun --from-literal=store=.*`,
		readOnly(noNodes, "deploy/kubernetes/cronjob/cronjob.yaml", `name: leaderrun\n +key: store\n`)},
	{`kubectl apply -k deploy/kubernetes/(example|policy)`, in("scripts/try-kubernetes", `kubectl apply -k deploy/kubernetes/example(?s:.*)kubectl apply -k deploy/kubernetes/policy`)},
	{`kubectl logs .*`, readOnly(noNodes, "deploy/kubernetes/deployment/deployment.yaml", `name: consumer`)},
	{`kubectl exec deploy/queue -c consumer -- /leaderrun/leaderrun .*`, readOnly(noNodes, "deploy/kubernetes/deployment/deployment.yaml", `mountPath: /leaderrun\n`)},
	{`(?s)kubectl run ask .*`, readOnly(noNodes, "deploy/kubernetes/lease/role.yaml", `name: leaderrun`)},
	{`kubectl (get|delete|patch|describe|edit) lease.*`, in("scripts/try-kubernetes", `kubectl delete lease leaderrun\.queue(?s:.*)kubectl patch lease leaderrun\.queue`)},
	{`kubectl patch endpointslice queue-leader .*`, in("scripts/try-kubernetes", `kubectl patch endpointslice queue-leader`)},
}

// noNodes is what the page on Kubernetes says of commands that need a node.
const noNodes = "nodes, images and the network between pods are not"

// quoted matches commands that documents quote within sentences.
var quoted = regexp.MustCompile(`^((leaderrun|scripts/\w+|go|sudo|systemctl|journalctl|kubectl|docker) \S|\.ci/run|CGO_ENABLED=\S+ )`)

// TestDocuments checks README.md and docs: each command that they show has a verdict, and
// the verdict holds.
func TestDocuments(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	must.Succeed(t, err)
	design, err := filepath.Glob("docs/design/*.md")
	must.Succeed(t, err)
	pages = append(pages, design...)
	d := &documents{T: t}
	for _, name := range append(pages, "README.md", "CONTRIBUTING.md", "SECURITY.md") {
		text := must.Read(t, name)
		d.read(page{name, text})
	}
	needed := map[string]bool{}
	dir := t.TempDir() // those of subtests have their names, and env(1) minds an "="
	for n, c := range d.commands {
		i := slices.IndexFunc(verdicts, func(v verdict) bool { return regexp.MustCompile("^(?:" + v.command + ")$").MatchString(c.command) })
		if i < 0 {
			t.Errorf("%s: no verdict on %s: add one to the table in documents_test.go", c.pages[0].name, c.command)
			continue
		}
		needed[verdicts[i].command] = true
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			verdicts[i].holds(newTry(t, c, filepath.Join(dir, strconv.Itoa(n))))
		})
	}
	for _, v := range verdicts {
		if !needed[v.command] {
			t.Errorf("no document shows a command like %s", v.command)
		}
	}
}

// shown is a command in the documents.
type shown struct {
	command string
	output  string // the block of text that follows
	pages   []page // that show it
}

type page struct{ name, text string }

// documents are the pages read so far.
type documents struct {
	*testing.T
	commands []*shown
	last     *shown
}

// read adds the commands of a page: quoted in sentences, in indented blocks, and in fenced
// blocks.
func (d *documents) read(p page) {
	d.last = nil
	for i, part := range strings.Split("\n"+p.text, "\n```") {
		if i%2 == 1 {
			language, text, _ := strings.Cut(part+"\n", "\n")
			d.fence(p, language, text)
			continue
		}
		for _, m := range matches("`([^`]+)`", strings.ReplaceAll(part, `\|`, "|")) {
			if quoted.MatchString(m[1]) {
				d.show(p, strings.ReplaceAll(m[1], "\n", " "))
			}
		}
		for _, m := range matches(`(?m)^    (.*)`, part) { // after those: what it says may follow
			d.show(p, m[1])
		}
	}
}

// fence adds the commands of a fenced block. Its language says where they are.
func (d *documents) fence(p page, language, text string) {
	switch language {
	case "sh":
		if strings.Contains(text, "\n\t") { // one command of several lines
			d.show(p, text)
			break
		}
		for line := range strings.Lines(text) {
			d.show(p, line)
		}
	case "console":
		for _, m := range matches(`(?m)^\$ (.*)`, text) {
			d.show(p, m[1])
		}
	case "crontab":
		lines := matches(`^((?:\w+=\S+\n)*)(?:[-0-9*/,]+ +){5}(?:root +)?(.*)\n$`, text)
		if lines == nil {
			d.Fatalf("%s: cron takes no\n%s", p.name, text)
		}
		d.show(p, strings.ReplaceAll(lines[0][1], "\n", " ")+lines[0][2])
	case "ini":
		verifyUnit(d.T, text)
		environment := ""
		for _, m := range matches(`(?m)^Environment=(.*)`, text) {
			environment += m[1] + " "
		}
		for _, m := range matches(`(?m)^ExecStart=(.*)`, text) {
			d.show(p, environment+m[1])
		}
	case "yaml":
		d.show(p, "leaderrun.yaml:\n"+text)
	case "text":
		if d.last != nil {
			d.last.output = text
		}
	case "json":
	default:
		if strings.Contains(language, " ") && slices.Contains([]string{"docs/fencing.md", "docs/operations.md", "docs/kubernetes.md"}, p.name) {
			break // TestFencing, TestPings and TestLeaderAddress run it
		}
		d.Errorf("%s: this block must say what it is, sh, text or another language of documents_test.go:\n%s", p.name, text)
	}
}

// show adds a command, once for all pages that have it.
func (d *documents) show(p page, command string) {
	command, _, _ = strings.Cut(command, " # ")
	command = strings.TrimSpace(command)
	i := slices.IndexFunc(d.commands, func(s *shown) bool { return s.command == command })
	if i < 0 {
		i = len(d.commands)
		d.commands = append(d.commands, &shown{command: command})
	}
	d.last = d.commands[i]
	d.last.pages = append(d.last.pages, p)
}

func matches(expression, text string) [][]string {
	return regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
}

// verifyUnit lets systemd check a unit, whose program need not exist.
func verifyUnit(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "documented.service")
	text = regexp.MustCompile(`ExecStart=\S+`).ReplaceAllString(text, "ExecStart=/bin/true")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	if out := output(t, "systemd-analyze", "verify", file); strings.Contains(out, file) {
		t.Errorf("%s\n%s", out, text)
	}
}
