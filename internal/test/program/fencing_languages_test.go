//go:build linux

package program

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// jobs are programs around recipes of the documents, which stand where BLOCK is. They claim, work,
// and write; those in other languages than sh ask before the work whether they lead.
var jobs = map[string]string{
	"s3": `#!/bin/sh
set -eu
fenced-s3 "$URL"
make-report >report.new
fenced-s3 "$URL" report.new
`,
	"mysql": `#!/bin/sh
set -eu
fenced-mysql </dev/null
text=$(make-report)
fenced-mysql <<SQL
UPDATE report SET text = x'$(printf %s "$text" | od -An -v -tx1 | tr -d ' \n')';
SQL
`,
	"redis": `#!/bin/sh
set -eu
fenced-redis
text=$(make-report)
fenced-redis SET report "$text" >/dev/null
`,
	"python": `#!/usr/bin/python3
import psycopg2, sys
BLOCK
db = psycopg2.connect(os.environ["DATABASE_URL"])
fenced(db)
if not leads(): sys.exit(76)
fenced(db, "UPDATE report SET text = %s", subprocess.check_output(["make-report"], text=True))
`,
	"node": `#!/usr/bin/env node
BLOCK
(async () => {
  await fenced();
  if (!leads()) process.exit(76);
  await fenced("UPDATE report SET text = ?", require("child_process").execFileSync("make-report", { encoding: "utf8" }));
})();
`,
	"go": `package main

import ("context"; "log"; "os"; "os/exec"; "github.com/jackc/pgx/v5")

BLOCK
func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	succeed(err)
	succeed(fenced(ctx, db, "SELECT 1"))
	if !leads() { os.Exit(76) }
	text, err := exec.Command("make-report").Output()
	succeed(err)
	succeed(fenced(ctx, db, "UPDATE report SET text = $1", string(text)))
}

func succeed(err error) { if err != nil { log.Fatal(err) } }
`,
	"java": `import java.sql.*;

class Job {
BLOCK
	public static void main(String[] args) throws Exception {
		fenced("SELECT 1");
		if (!leads()) System.exit(76);
		var work = new ProcessBuilder("make-report").start();
		fenced("UPDATE report SET text = ?", new String(work.getInputStream().readAllBytes()));
	}
}
`,
}

// jdbc is the driver of Debian's package libpostgresql-jdbc-java.
const jdbc = "/usr/share/java/postgresql.jar"

// noJava says what of Java is missing. Without its 270 MB a test of it is skipped, which is an error
// in CI.
func noJava() error {
	_, err := exec.LookPath("javac") // without it java runs no source
	_, errDriver := os.Stat(jdbc)
	return errors.Join(err, errDriver)
}

// recipes returns the programs of the documents, and a job for each recipe that has none there.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	programs := fencing(t)
	job := func(language, block string) string {
		return strings.Replace(jobs[language], "BLOCK", programs[block], 1)
	}
	for _, shell := range []string{"mysql", "redis", "s3"} {
		programs["job-"+shell] = jobs[shell]
	}
	programs["job-python"] = job("python", "fenced.py")
	programs["job-node"] = job("node", "fenced.js")

	dir := t.TempDir()
	source := filepath.Join(dir, "job.go")
	must.Succeed(t, os.WriteFile(source, []byte(job("go", "fenced.go")), 0o600))
	output(t, "go", "build", "-o", filepath.Join(dir, "job"), source)
	programs["job-go"] = "#!/bin/sh\n# it asks leads()\nexec " + dir + "/job\n"

	source = filepath.Join(dir, "Job.java")
	must.Succeed(t, os.WriteFile(source, []byte(job("java", "Fenced.java")), 0o600))
	programs["job-java"] = "#!/bin/sh\n# it asks leads()\nJDBC_URL=jdbc:$DATABASE_URL exec java -cp " + jdbc + " " + source + "\n"
	return programs
}
