//go:build linux

package script

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// PostgresServer is one test's PostgreSQL server. It listens only on loopback and ends with
// the test, even if the test process is killed.
type PostgresServer struct {
	Addr string // 127.0.0.1:Port
	// URL names a database and a user with all rights there.
	URL string
	process
}

// StartPostgres starts a server and waits until it listens. files are put into its directory,
// such as pg_hba.conf; settings have the form NAME=VALUE. Without the program the test is
// skipped, or fails if CI is set.
func StartPostgres(t testing.TB, files map[string]string, settings ...string) *PostgresServer {
	t.Helper()
	needPostgres(t)
	empty, err := emptyCluster()
	must.Succeed(t, err)
	dir, err := postgresDir()
	must.Succeed(t, err)
	s := &PostgresServer{process: process{
		Dir: dir, t: t, name: postgresProgram("postgres"), says: []string{"database system is ready to accept "}, // a replica: "read-only connections"
		command: func(name string, args ...string) *exec.Cmd { return asPostgres(dir, name, args...) },
	}}
	t.Cleanup(s.clean)
	all := maps.Clone(empty)
	maps.Copy(all, files)
	must.Succeed(t, writeCluster(s.Dir, all))
	s.Addr = freeAddr(t)
	host, port, _ := net.SplitHostPort(s.Addr)
	s.URL = "postgres://postgres:" + serverPassword + "@" + s.Addr + "/postgres"
	s.args = []string{"-D", s.Dir, "-p", port}
	s.set("listen_addresses="+host, "unix_socket_directories=", "fsync=off", "shared_buffers=8MB",
		"dynamic_shared_memory_type=mmap") // in its own files, which are removed with the others
	s.set(settings...)
	s.mustStart()
	return s
}

const serverPassword = "s3cret" // refused looks for it

// needPostgres skips the test without the server, or fails it if CI is set.
func needPostgres(t testing.TB) {
	t.Helper()
	needPackage(t, cmp.Or(postgresProgram("postgres"), "postgres"), "postgresql")
}

// Kill ends the server as a power cut does.
func (s *PostgresServer) Kill() {
	s.process.Kill()
	s.freeMemory()
}

// set adds settings of the form NAME=VALUE to the server's next start.
func (s *PostgresServer) set(settings ...string) {
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
}

// serveTLS restarts the server with TLS and the certificate of that name.
func (s *PostgresServer) serveTLS(certs Certificates, name string) {
	s.t.Helper()
	files := map[string]string{}
	for as, file := range map[string]string{"server.crt": name + ".pem", "server.key": name + ".key"} {
		text := must.Read(s.t, certs.File(file))
		files[as] = text
	}
	must.Succeed(s.t, writeCluster(s.Dir, files))
	s.set("ssl=on") // it may be set twice
	s.Restart()
}

// Do runs SQL with psql and returns what it prints, a line per row.
func (s *PostgresServer) Do(sql string) (string, error) {
	cmd := exec.Command(postgresProgram("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", s.URL, "-c", sql)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *servers) startPostgres(t testing.TB) {
	// Without passwords and TLS, which are slow on purpose: scripts measure time.
	s.postgres = StartPostgres(t, map[string]string{"pg_hba.conf": "host all all 127.0.0.1/32 trust\n"})
	s.server = s.postgres
	s.env = map[string]string{"STORE": s.postgres.URL + "?sslmode=disable", "SERVER": s.postgres.Addr, "DATA": s.postgres.Dir}
}

func postgresDo(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || of(ts).postgres == nil {
		ts.Fatalf("usage: postgres-do SQL, where the store is one of Postgres")
	}
	sqlDo(ts, neg, "postgres-do", of(ts).postgres.Do, args[0])
}

// clean removes everything.
func (s *PostgresServer) clean() {
	s.Kill()
	if err := os.RemoveAll(s.Dir); err != nil {
		s.t.Error(err)
	}
}

// freeMemory removes the shared memory of a killed server, because of which another one would
// refuse its folder.
func (s *PostgresServer) freeMemory() {
	const idLine = 6
	pidFile, _ := os.ReadFile(filepath.Join(s.Dir, "postmaster.pid"))
	if lines := strings.Split(string(pidFile), "\n"); len(lines) > idLine {
		if fields := strings.Fields(lines[idLine]); len(fields) == 2 {
			if id, err := strconv.Atoi(fields[1]); err == nil {
				_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			}
		}
	}
}

// emptyCluster returns a new data directory, in the form of readFiles. To create one takes a
// second, so a test process does it once.
var emptyCluster = sync.OnceValues(func() (map[string]string, error) {
	dir, err := postgresDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := writeCluster(dir, map[string]string{"password": serverPassword}); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	cmd := asPostgres(dir, postgresProgram("initdb"), "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", filepath.Join(dir, "password"),
		"-E", "UTF8", "--locale", "C", "--no-sync", "--wal-segsize", "1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return readFiles(data)
})

// readFiles returns the files of a directory by name, and its directories with a slash at
// the end.
func readFiles(dir string) (map[string]string, error) {
	files := map[string]string{}
	return files, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			files[name+"/"] = ""
			return nil
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(content)
		return err
	})
}

// writeCluster writes what emptyCluster returns, for the server's user.
func writeCluster(dir string, files map[string]string) error {
	return writeFiles(dir, files, GivePostgres)
}

// writeFiles writes what readFiles returns, and calls own with each path.
func writeFiles(dir string, files map[string]string, own func(path string) error) error {
	for _, name := range slices.Sorted(maps.Keys(files)) { // directories come before what is in them
		path := filepath.Join(dir, name)
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = os.WriteFile(path, []byte(files[name]), 0o600)
		}
		if err != nil {
			return err
		}
		if err := own(path); err != nil {
			return err
		}
	}
	return nil
}

// postgresDir creates a directory that the server's user can reach, unlike those of package
// testing. A new server has a thousand files. On a disk they take half a second of processor
// time if several servers start at once, so SERVERS may name a folder in memory.
func postgresDir() (string, error) {
	dir, err := os.MkdirTemp(os.Getenv("SERVERS"), "postgres-")
	if err != nil {
		return "", err
	}
	return dir, GivePostgres(dir)
}

// GivePostgres makes the server's user the owner of a file.
func GivePostgres(path string) error {
	if c := PostgresUser(); c != nil {
		return os.Lchown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// asPostgres returns a program in dir, as the server's user, that ends with the test process.
func asPostgres(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = dieWithParent()
	cmd.SysProcAttr.Credential = PostgresUser()
	return cmd
}

// PostgresUser returns the user for servers if this is root: Postgres refuses to run as root.
func PostgresUser() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	c := &syscall.Credential{Uid: 65534, Gid: 65534}
	if nobody, err := user.Lookup("nobody"); err == nil {
		uid, _ := strconv.ParseUint(nobody.Uid, 10, 32)
		gid, _ := strconv.ParseUint(nobody.Gid, 10, 32)
		c.Uid, c.Gid = uint32(uid), uint32(gid)
	}
	return c
}

// postgresProgram finds a program of the server, or returns "". PATH comes first where it has
// the server: scripts/try-postgres puts other versions there. Debian has them elsewhere, by
// version; the newest is used. (Its psql in PATH is a Perl program that looks for a server's.)
func postgresProgram(name string) string {
	if server, err := exec.LookPath("postgres"); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(server), name)); err == nil {
			return path
		}
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	if all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(all) > 0 {
		return slices.MaxFunc(all, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
	}
	path, _ := exec.LookPath(name) // "" if there is none
	return path
}
