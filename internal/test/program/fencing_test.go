//go:build linux

package program

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// recipe is one sink of docs/fencing.md, or a language.
type recipe struct {
	name    string
	job     string   // the program that is the job
	env     []string // where the sink is
	read    func() string
	refusal string // the error that a stale leader gets; TOKEN and NEWER stand for the tokens
	status  string // of its job
}

// TestFencing runs the recipes of the documents unchanged. Leader A claims, and its job still
// runs when leader B takes over, claims and writes. A's late write is refused, and B's stays.
func TestFencing(t *testing.T) {
	t.Parallel()
	programs := recipes(t)

	postgres := script.StartPostgres(t, map[string]string{"pg_hba.conf": "host all all 127.0.0.1/32 trust\n"})
	sql := func(text string) string { return answer(t, postgres.Do, text) }
	sql("CREATE TABLE report (text text); INSERT INTO report VALUES ('nothing')")
	sql(programs["fence.sql"])
	sql("CREATE ROLE writer LOGIN; GRANT UPDATE ON report TO writer; GRANT EXECUTE ON FUNCTION fence TO writer")
	inPostgres := []string{"DATABASE_URL=postgresql://" + postgres.Addr + "/postgres?user=writer"}
	readPostgres := func() string { return sql("SELECT text FROM report") }
	const refused = "fenced: token TOKEN is refused, a newer leader of report has claimed its own"

	maria := script.StartMariaDB(t)
	mysql := func(text string) string { return answer(t, maria.Do, text) }
	mysql("CREATE TABLE report (text text); INSERT INTO report VALUES ('nothing')")
	mysql(programs["fence-mysql.sql"])
	mysql("CREATE USER writer; GRANT SELECT, UPDATE ON report TO writer; GRANT EXECUTE ON PROCEDURE fence TO writer")
	host, port, _ := net.SplitHostPort(maria.Addr) // it has one
	inMySQL := []string{
		"SINK=" + file(t, "[mysql]\nhost="+host+"\nport="+port+"\nuser=writer\ndatabase=jobs\n"),
		"DATABASE_URL=mysql://writer@" + maria.Addr + "/jobs", "NODE_PATH=/usr/share/nodejs",
	}
	readMySQL := func() string { return mysql("SELECT text FROM report") }

	redis := script.StartRedis(t)
	dir := t.TempDir()
	bucket := newBucket(t)

	sinks := []recipe{
		{"postgres", "job-psql", inPostgres, readPostgres, "ERROR:  " + refused, "3"},
		{"python", "job-python", inPostgres, readPostgres, refused, "1"},
		{"go", "job-go", inPostgres, readPostgres, refused, "1"},
		{"java", "job-java", inPostgres, readPostgres, refused, "1"},
		{"mysql", "job-mysql", inMySQL, readMySQL, "fenced: token TOKEN is refused, NEWER has claimed report", "1"},
		{"node", "job-node", inMySQL, readMySQL, "fenced: token TOKEN is refused, NEWER has claimed report", "1"},
		{
			"redis", "job-redis", []string{"REDIS_URL=redis://" + redis.Addr},
			func() string { return output(t, "redis-cli", "-u", "redis://"+redis.Addr, "GET", "report") },
			"FENCED token TOKEN is refused, NEWER has claimed fence:report", "1",
		},
		{
			"s3", "job-s3", []string{"SINK=" + bucket.config, "URL=" + bucket.URL + "/report"},
			func() string { _, text, _ := strings.Cut(bucket.content(), "\n"); return text },
			"fenced: token TOKEN is refused, NEWER has claimed " + bucket.URL + "/report", "76",
		},
		{
			"file", "job-file", []string{"DIR=" + dir},
			func() string { return output(t, "cat", filepath.Join(dir, "report")) },
			"fenced: token TOKEN is refused, NEWER has claimed " + dir, "76",
		},
	}
	for _, r := range sinks {
		t.Run(r.name, func(t *testing.T) {
			if why := noJava(); r.name == "java" && why != nil {
				t.Skip(why)
			}
			r.test(t, programs)
		})
	}
}

// makeReport is the work of the jobs. It lasts as long as the leader's file exists.
const makeReport = `#!/bin/sh
echo "$LEADERRUN_TOKEN" >"works.$WHO"
while [ -e "hold.$WHO" ]; do sleep 0.02; done
echo "leader's report of $LEADERRUN_TOKEN"
`

// lateJob is a leader's job that goes on after its lease. leaderrun kills its tree, so the
// job leaves the tree with --leftovers leave; a frozen machine that continues would send
// the same.
const lateJob = `{ "$0" >late.out 2>&1; echo $? >late.status; } >/dev/null 2>&1 &
until [ -s works.A ] || [ -s late.status ]; do sleep 0.02; done`

func (r recipe) test(t *testing.T, programs map[string]string) {
	work := t.TempDir()
	for name, text := range programs {
		must.Succeed(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o700))
	}
	for name, text := range map[string]string{"make-report": makeReport, "hold.A": ""} {
		must.Succeed(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o700))
	}
	run := func(who string, args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), append(r.env, "WHO="+who, "PATH="+work+":"+os.Getenv("PATH"))...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(work, name)) // missing is as good as empty
		return strings.TrimSpace(string(text))
	}
	leaderrun := []string{"leaderrun", "--store=file:" + filepath.Join(work, "leases"), "--key=report"}

	if out, err := run("A", append(leaderrun, "--leftovers=leave", "--", "sh", "-c", lateJob, r.job)...); err != nil {
		t.Fatalf("leader A: %v: %s", err, out)
	}
	old := read("works.A")
	if old == "" {
		t.Fatalf("A's claim was refused: %s", read("late.out"))
	}
	if out, err := run("B", append(leaderrun, "--", r.job)...); err != nil || out != "" {
		t.Fatalf("leader B: %v: %s", err, out) // cron would send what it prints
	}
	newer := read("works.B")
	want := "leader's report of " + newer
	if got := strings.TrimSpace(r.read()); got != want {
		t.Fatalf("B has written, the sink has %q, want %q", got, want)
	}

	// A comes late.
	must.Succeed(t, os.Remove(filepath.Join(work, "hold.A")))
	eventually(t, "A's job ends", func() bool { return read("late.status") != "" })
	refusal := strings.NewReplacer("TOKEN", old, "NEWER", newer).Replace(r.refusal)
	if status := read("late.status"); status != r.status || !strings.Contains(read("late.out"), refusal) {
		t.Errorf("A's write ended with %s, want %s, and said %q, want %q", status, r.status, read("late.out"), refusal)
	}
	if got := strings.TrimSpace(r.read()); got != want {
		t.Errorf("A has come late, the sink has %q, want %q", got, want)
	}

	// A leader that claims too late does not even start.
	out, err := run("late", "env", "LEADERRUN_KEY=report", "LEADERRUN_TOKEN="+old, r.job)
	if err == nil || !strings.Contains(out, refusal) || read("works.late") != "" {
		t.Errorf("a late claim: %v, %q", err, out)
	}
	// Nor does one that leads no more when it asks.
	if strings.Contains(programs[r.job], "leads()") {
		out, err := run("idle", "env", "LEADERRUN_KEY=report", "LEADERRUN_TOKEN="+newer, r.job)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 76 || read("works.idle") != "" {
			t.Errorf("it asks without a lease: %v, %q", err, out)
		}
	}
	// Without a token nothing is written.
	if out, err := run("nobody", r.job); err == nil || read("works.nobody") != "" {
		t.Errorf("outside leaderrun: %v, %q", err, out)
	}
	if got := strings.TrimSpace(r.read()); got != want {
		t.Errorf("at the end the sink has %q, want %q", got, want)
	}
}

// answer returns what a server's client prints.
func answer(t *testing.T, do func(string) (string, error), text string) string {
	t.Helper()
	out, err := do(text)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

// file makes a file with this text.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// fencing returns the programs of docs/fencing, and the named blocks of the page about them.
func fencing(t *testing.T) map[string]string {
	t.Helper()
	programs := blocks(t, "docs/fencing.md")
	files, err := os.ReadDir("docs/fencing")
	must.Succeed(t, err)
	for _, f := range files {
		programs[f.Name()] = must.Read(t, "docs/fencing/"+f.Name())
	}
	return programs
}

// blocks returns the code blocks of a document that have a name after their language.
func blocks(t *testing.T, document string) map[string]string {
	t.Helper()
	text := must.Read(t, document)
	named := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		named[m[1]] = m[2]
	}
	return named
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}
