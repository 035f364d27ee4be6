//go:build linux

package script

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// MariaDBServer is one test's MariaDB. It listens only on loopback and ends with the test,
// even if the test process is killed.
type MariaDBServer struct {
	Addr string // 127.0.0.1:PORT
	// URL names a database and a user with all rights there.
	URL string
	process
}

// initMariaDB is what a new server executes first. refused looks for this password.
const initMariaDB = `CREATE DATABASE IF NOT EXISTS jobs;
CREATE USER IF NOT EXISTS admin IDENTIFIED BY 's3cret';
GRANT ALL ON *.* TO admin WITH GRANT OPTION;
`

// StartMariaDB starts a server and waits until it listens. args are more arguments for it.
// Without the program the test is skipped, or fails if CI is set.
func StartMariaDB(t testing.TB, args ...string) *MariaDBServer {
	t.Helper()
	needPackage(t, "mariadbd", "mariadb-server")
	empty, err := emptyMariaDB()
	must.Succeed(t, err)
	dir := t.TempDir()
	s := &MariaDBServer{Addr: freeAddr(t), process: process{
		t: t, name: "mariadbd", says: []string{"mariadbd: ready for connections"}, Dir: filepath.Join(dir, "data"),
	}}
	first := filepath.Join(dir, "init.sql")
	must.Succeed(t, os.WriteFile(first, []byte(initMariaDB), 0o600))
	must.Succeed(t, writeFiles(s.Dir, empty, func(string) error { return nil }))
	t.Cleanup(s.Kill)
	s.URL = "mysql://admin:" + serverPassword + "@" + s.Addr + "/jobs"
	host, port, _ := net.SplitHostPort(s.Addr)
	s.args = append(append(basicsOfMariaDB(s.Dir), "--port="+port, "--bind-address="+host, "--socket=", "--init-file="+first), args...)
	s.mustStart()
	return s
}

// basicsOfMariaDB returns the arguments of every server, and of the program that creates its
// files, which are small. It does not sync: data outlives the process, and tests do not cut
// the power. Each has its own folder for temporary tables: when a server starts, it removes
// those of all servers with the same one.
func basicsOfMariaDB(dir string) []string {
	args := []string{
		"--no-defaults", "--datadir=" + dir, "--tmpdir=" + dir, "--skip-name-resolve", "--innodb-log-file-size=4M", "--innodb-data-file-path=ibdata1:5M:autoextend",
		"--innodb-autoextend-increment=1", "--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=2",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // otherwise it refuses to run as root
	}
	return args
}

// emptyMariaDB returns a new data directory. To create one takes seconds, so a test process
// does it once.
var emptyMariaDB = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "mariadb-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	cmd := exec.Command("mariadb-install-db", append(basicsOfMariaDB(data), "--skip-test-db", "--auth-root-authentication-method=normal")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return readFiles(data)
})

// Do runs SQL with the server's own client and returns what it prints, a line per row.
func (s *MariaDBServer) Do(sql string) (string, error) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("mariadb", "--no-defaults", "-h", host, "-P", port, "-u", "admin", "-NBr", "jobs", "-e", sql)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+serverPassword)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// serveTLS restarts the server with TLS and the certificate of that name.
func (s *MariaDBServer) serveTLS(certs Certificates, name string) {
	s.t.Helper()
	s.args = append(s.args, "--ssl-cert="+certs.File(name+".pem"), "--ssl-key="+certs.File(name+".key"))
	s.Restart()
}

func mysqlDo(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || of(ts).mariadb == nil {
		ts.Fatalf("usage: mysql-do SQL, where the store is one of MySQL")
	}
	sqlDo(ts, neg, "mysql-do", of(ts).mariadb.Do, args[0])
}

// sqlDo runs SQL and shows the result.
func sqlDo(ts *testscript.TestScript, neg bool, name string, do func(string) (string, error), sql string) {
	out, err := do(sql)
	if err != nil {
		fmt.Fprint(ts.Stderr(), out)
	} else {
		fmt.Fprint(ts.Stdout(), out)
	}
	if neg != (err != nil) {
		ts.Fatalf("%s: error %v, want one: %t", name, err, neg)
	}
}
