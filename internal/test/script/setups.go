//go:build linux

package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveTLS makes the script's server speak TLS, with the certificate NAME. TLS is its address,
// and the folder tls has the files of Certificates.
func serveTLS(ts *testscript.TestScript, args []string) {
	name := "server"
	if len(args) == 1 {
		name = args[0]
	}
	s := of(ts)
	certs := Certificates(filepath.Join(s.workDir, "tls"))
	if err := os.Mkdir(string(certs), 0o700); err == nil {
		NewCertificates(s.t, string(certs))
	}
	switch {
	case len(args) > 1:
		ts.Fatalf("usage: tls [NAME]")
	case s.postgres != nil:
		s.postgres.serveTLS(certs, name)
		ts.Setenv("TLS", s.postgres.Addr)
	case s.mariadb != nil:
		s.mariadb.serveTLS(certs, name)
		ts.Setenv("TLS", s.mariadb.Addr)
	default:
		ts.Setenv("TLS", certs.ServeTLS(s.t, s.admin, name))
	}
}

// sentinels starts servers with sentinels. SENTINELS has the sentinels' addresses, PRIMARY,
// REPLICA1 and so on have the servers' ports, and the files primary.pid, replica1.pid,
// sentinel1.pid and so on have the process ids.
func sentinels(ts *testscript.TestScript, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: sentinels REPLICAS [LINE-OF-SENTINEL.CONF...]")
	}
	set := StartSentinels(of(ts).t, number(ts, args[0]), Servers{Sentinel: args[1:]})
	ts.Setenv("SENTINELS", set.Addrs())
	introduce(ts, "PRIMARY", "primary", set.Primary)
	for i, s := range set.Replicas {
		introduce(ts, fmt.Sprint("REPLICA", i+1), fmt.Sprint("replica", i+1), s)
	}
	for i, s := range set.Sentinels {
		introduce(ts, fmt.Sprint("SENTINEL", i+1), fmt.Sprint("sentinel", i+1), s)
	}
}

// cluster starts a cluster. NODES has the addresses of its primaries, NODE1 the port of the
// node with the lease of the key k, NODE2 and NODE3 those of the others, and the files
// node1.pid and so on have the process ids.
func cluster(ts *testscript.TestScript, args []string) {
	if len(args) > 1 || len(args) == 1 && args[0] != "replicas" {
		ts.Fatalf("usage: cluster [replicas]")
	}
	s := of(ts)
	c := StartCluster(s.t, len(args) == 1, Servers{})
	ts.Setenv("NODES", c.Addrs())
	_, first := c.Of(s.t, "leaderrun:leader:k")
	for i := range c.Primaries {
		introduce(ts, fmt.Sprint("NODE", i+1), fmt.Sprint("node", i+1), c.Primaries[(first+i)%len(c.Primaries)])
	}
}

// introduce sets the variables by which a script reaches a server.
func introduce(ts *testscript.TestScript, variable, name string, s *RedisServer) {
	ts.Setenv(variable, strconv.Itoa(s.Port))
	ts.Check(os.WriteFile(ts.MkAbs(name+".pid"), []byte(strconv.Itoa(s.Pid())), 0o600))
}
