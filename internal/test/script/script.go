//go:build linux

// Package script runs the scripts of testdata/script against the real binary, with real
// processes, signals and servers.
//
// A script gets a working directory, no settings of this machine, STORE (the store to use)
// and the commands listed at [Run]. Every process that a script starts is marked by a
// variable in its environment. A process that outlives its leaderrun makes the script fail,
// and no process outlives the script.
//
// Processes are found in /proc, so scripts run only on Linux. Only tests may import this
// package, and programs that start the same servers.
package script

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Store names the kind of store that scripts get in STORE.
type Store string

const (
	File  Store = "file"  // a directory that does not exist yet
	Redis Store = "redis" // an empty redis-server of the script's own
	// Postgres is a server of the script's own, without a table.
	Postgres Store = "postgres"
	MySQL    Store = "mysql" // a MariaDB of the script's own, without a table
	Etcd     Store = "etcd"  // one member of the script's own
	// EtcdCluster has three members; the command store acts on etcd's leader.
	EtcdCluster Store = "etcd-cluster"
	// Kubernetes is an API server of the script's own, which KUBECONFIG names.
	Kubernetes Store = "kubernetes"
	// S3 is a server of the script's own, with a bucket.
	S3 Store = "s3"
)

// Main is for TestMain: it links the program of the module at root, runs the tests there, and
// returns their status. PATH starts with leaderrun as it is shipped (without the race
// detector, which would change the start-up) and the helpers in testdata/script/bin. With
// -short it runs nothing.
func Main(m *testing.M, root string) int {
	flag.Parse()
	if testing.Short() {
		return 0
	}
	status, err := func() (int, error) {
		if err := os.Chdir(root); err != nil {
			return 0, err
		}
		bin, err := os.MkdirTemp("", "leaderrun-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(bin)
		if err := build(bin, "."); err != nil {
			return 0, err
		}
		helpers, err := filepath.Abs("testdata/script/bin")
		if err == nil {
			err = os.Setenv("PATH", strings.Join([]string{bin, helpers, os.Getenv("PATH")}, string(os.PathListSeparator)))
		}
		if err != nil {
			return 0, err
		}
		return m.Run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// Build builds the program of a folder of this module for the test, and returns its path.
func Build(t testing.TB, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), path.Base(folder))
	must.Succeed(t, build(program, "github.com/leaderrun/leaderrun/"+folder))
	return program
}

// build builds a program as leaderrun is shipped.
func build(to, program string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", to, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Run runs every script in dir as a parallel subtest. The commands, beside
// those of testscript:
//
//	exitcode N CMD…         run CMD, assert its status (128+n: signal n ended it)
//	start NAME CMD…         run CMD in the background; output in NAME.out, NAME.err
//	ended NAME N            wait for its end, assert its status
//	took MIN MAX            assert the duration of what exitcode or ended saw last
//	signal SIG NAME|FILE    send a signal to a run, or to the process id in FILE
//	alive NAME|FILE…        assert that the process lives
//	dead NAME|FILE…         wait until the process is dead; a run: with all it started
//	waitfile FILE [REGEXP]  wait until FILE has content, or matching content
//	empty FILE…             assert zero bytes; stdout and stderr as in testscript
//	refused WORD CMD…       assert a refusal of the input that WORD names
//	store stop|cont|kill|restart   the store's server; the folder of a file store is stopped
//	                               by holding its turns, killed by moving it away
//	store clock CLOCK       the server's clock, see SetClock: +3d, say; the first one restarts it,
//	                        a redis-server without data
//	[!] redis-do CMD…       a command at the server, its answer on stdout
//	[!] postgres-do SQL     likewise, a line per row; so is mysql-do
//	manager FILE            a service manager: the messages at NOTIFY_SOCKET go to FILE
//	tls [NAME]              let the server speak TLS as well, at TLS, with this certificate
//	sentinels N [LINE…]     start a primary with N replicas and three sentinels
//	cluster [replicas]      start a cluster of three nodes, with replicas or without
//	proxy                   start a proxy to the server: PROXY is its URL
//	proxy MODE|delay D      as faultnet.Mode
//
// The condition [root] says whether this user is root, [free:PORT] whether PORT of loopback is free, [mounts]
// whether this user may mount a file system in a namespace of his own.
func Run(t *testing.T, dir string, store Store) { runScripts(t, dir, store, nil) }

// RunOnOne is Run with one server for all scripts. Each has a prefix of its own, and leaves
// the server alone.
func RunOnOne(t *testing.T, dir string, store Store) {
	runScripts(t, dir, store, startServers(t, store))
}

func runScripts(t *testing.T, dir string, store Store, shared *servers) {
	testscript.Run(t, testscript.Params{
		Dir:                dir,
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return setup(env, store, shared) },
		Condition:          condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": command(exitcode),
			"start":    command(start),
			"ended":    command(ended),
			"took":     command(took),
			"signal":   command(signal),
			"alive":    command(alive),
			"dead":     command(dead),
			"waitfile": command(waitfile),
			"empty":    command(empty),
			"refused":  command(refused),
			"redis-do": redisDo,
			"proxy":    command(proxy),
			"manager":  command(manager),

			"tls":       command(alone(serveTLS)),
			"sentinels": command(sentinels),
			"cluster":   command(cluster),

			"store":       command(alone(plug)),
			"postgres-do": postgresDo,
			"mysql-do":    mysqlDo,
		},
	})
}

// script is the state that the commands of one script share.
type script struct {
	t       testing.TB
	workDir string
	store   Store
	runs    map[string]*run
	last    time.Duration // of the last exitcode or ended
	proxy   *faultnet.Proxy
	turns   []*os.File // of a file store, held
	*servers
	shared bool // the servers, with other scripts
}

// servers are those of a store.
type servers struct {
	env map[string]string // what scripts know of them

	server   Server // nil: a folder; otherwise also one of these, or another
	redis    *RedisServer
	admin    *redis.Client
	postgres *PostgresServer
	mariadb  *MariaDBServer
}

type scriptKey struct{}

func of(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// setup gives a script its own home, its store and the mark of its processes.
func setup(env *testscript.Env, store Store, shared *servers) error {
	s := &script{t: env.T().(testing.TB), workDir: env.WorkDir, store: store, runs: map[string]*run{}, servers: shared, shared: shared != nil}
	env.Values[scriptKey{}] = s
	home, runtime := filepath.Join(env.WorkDir, ".home"), filepath.Join(env.WorkDir, ".run")
	for _, dir := range []string{home, runtime} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	env.Setenv("HOME", home)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	env.Setenv("XDG_RUNTIME_DIR", runtime)
	env.Setenv("STORE", "file:"+filepath.Join(env.WorkDir, storeDir))
	env.Setenv("TTL", "3s")
	env.Setenv(markName, s.mark("exec"))
	env.Defer(s.sweep)
	if s.shared {
		env.Setenv("LEADERRUN_PREFIX", filepath.Base(env.WorkDir))
	} else {
		s.servers = startServers(s.t, store)
	}
	for name, value := range s.env {
		env.Setenv(name, value)
	}
	return nil
}

// startServers starts those of a store, which end with t.
func startServers(t testing.TB, store Store) *servers {
	t.Helper()
	s := &servers{}
	switch store {
	case Redis:
		s.startRedis(t)
	case Postgres:
		s.startPostgres(t)
	case MySQL:
		s.mariadb = StartMariaDB(t)
		s.server = s.mariadb
		s.env = map[string]string{"STORE": s.mariadb.URL, "SERVER": s.mariadb.Addr}
	case Etcd:
		etcd := StartEtcd(t)
		s.server = etcd
		s.env = map[string]string{"STORE": "etcd://" + etcd.Addr, "SERVER": etcd.Addr}
	case EtcdCluster:
		members := StartEtcds(t, 3)
		s.server = EtcdLeader(t, members)
		var addrs []string
		for _, m := range members {
			addrs = append(addrs, m.Addr)
		}
		s.env = map[string]string{"STORE": "etcd://" + strings.Join(addrs, ",")}
	case Kubernetes:
		api := StartAPIServer(t)
		s.server = api
		s.env = map[string]string{
			"STORE":      "kubernetes:",
			"TTL":        "10s",                       // no less
			"KUBECONFIG": api.Kubeconfig("operator"),  // who may list
			"RUNS":       api.Kubeconfig("leaderrun"), // who may not
		}
	case S3:
		s3 := StartS3(t)
		s.server = s3
		s.env = map[string]string{
			"STORE": s3.URL(), "SERVER": s3.Addr,
			"TTL":               "10s", // no less
			"AWS_ACCESS_KEY_ID": S3ID, "AWS_SECRET_ACCESS_KEY": S3Secret,
		}
	}
	return s
}

// storeDir is the folder of a file store, below the working directory.
const storeDir = ".leases"

// alone adapts a command that other scripts would feel.
func alone(f func(*testscript.TestScript, []string)) func(*testscript.TestScript, []string) {
	return func(ts *testscript.TestScript, args []string) {
		if of(ts).shared {
			ts.Fatalf("other scripts use the server, too: this script belongs into a folder whose scripts have their own")
		}
		f(ts, args)
	}
}

// command adapts a command that cannot be negated.
func command(f func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command cannot be negated")
		}
		f(ts, args)
	}
}
