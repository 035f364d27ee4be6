//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/store/postgres"
	"github.com/leaderrun/leaderrun/internal/store/redis"
)

// redisKeeper is a redis-server that writes its log to the disk.
type redisKeeper struct{ *server }

func (k redisKeeper) open(host string) (store, error) {
	return redis.New(redis.Options{URL: "redis://" + net.JoinHostPort(host, k.port), Prefix: "leaderrun"})
}

func (k redisKeeper) costs() ([]cost, error) {
	i, err := k.info()
	return []cost{
		{"commands", i.number("total_commands_processed:")},
		{"kB in", i.number("total_net_input_bytes:") / 1000},
		{"kB out", i.number("total_net_output_bytes:") / 1000},
		{"µs of its processor", i.cpu() * 1e6},
	}, err
}

func (k redisKeeper) restart() error {
	if err := k.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = k.process.Wait()
	return k.start()
}

// postgresKeeper is a Postgres on loopback, with its default settings except the number of
// connections. Root must not run it.
type postgresKeeper struct {
	data, port string
	flags      []string
	attr       *syscall.SysProcAttr
	process    *exec.Cmd
}

func startPostgres(dir string, hosts []string, connections int) (*postgresKeeper, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(hosts[0], "0"))
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	data, err := os.MkdirTemp(dir, "postgres")
	if err != nil {
		return nil, err
	}
	k := &postgresKeeper{data: data, port: port, attr: &syscall.SysProcAttr{}}
	k.flags = []string{"-D", k.data, "-p", port, "-c", "listen_addresses=" + strings.Join(hosts, ","),
		"-c", "unix_socket_directories=", "-c", "max_connections=" + strconv.Itoa(connections)}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(nobody.Uid) // on Unix they are numbers
		gid, _ := strconv.Atoi(nobody.Gid)
		if err := os.Chown(k.data, uid, gid); err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, 0o711); err != nil { // otherwise its user could not enter the folder
			return nil, err
		}
		k.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if out, err := k.tool("initdb", "-D", k.data, "-U", "postgres", "-A", "trust", "--locale", "C", "-E", "UTF8").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return k, k.start()
}

// tool returns one of the server's programs, from Debian's folder or from PATH.
func (k *postgresKeeper) tool(name string, args ...string) *exec.Cmd {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		name = found[len(found)-1]
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr = k.data, k.attr
	return cmd
}

func (k *postgresKeeper) start() error {
	k.process = k.tool("postgres", k.flags...)
	if err := k.process.Start(); err != nil {
		return err
	}
	return await("an answer of postgres", func() (bool, error) {
		_, err := k.ask("SELECT 1")
		return err == nil, nil
	})
}

func (k *postgresKeeper) stop() { _ = k.end() }

// end stops it properly: it closes all connections.
func (k *postgresKeeper) end() error {
	if err := k.process.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return k.process.Wait()
}

func (k *postgresKeeper) restart() error {
	if err := k.end(); err != nil {
		return err
	}
	return k.start()
}

func (k *postgresKeeper) url(host string) string {
	return "postgres://postgres@" + net.JoinHostPort(host, k.port) + "/postgres?sslmode=disable"
}

func (k *postgresKeeper) open(host string) (store, error) {
	return postgres.New(postgres.Options{URL: k.url(host), Prefix: "leaderrun"})
}

// ask returns the result of a query for one number.
func (k *postgresKeeper) ask(sql string) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgconn.Connect(ctx, k.url("127.0.0.1"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close(ctx) }()
	result := c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return 0, result.Err
	}
	return strconv.ParseFloat(string(result.Rows[0][0]), 64)
}

func (k *postgresKeeper) costs() ([]cost, error) {
	transactions, err := k.ask("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database")
	if err != nil {
		return nil, err
	}
	wal, err := k.ask("SELECT pg_current_wal_insert_lsn() - '0/0'")
	if err != nil {
		return nil, err
	}
	// Each connection has its own process.
	postmaster := k.process.Process.Pid
	backends, _ := proc.ChildrenOf(postmaster)
	var ticks float64
	for _, pid := range append(backends, postmaster) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		for i, field := range strings.Fields(rest) {
			// The sum of all threads, and of the children that were reaped (proc_pid_stat(5)).
			if n, err := strconv.ParseFloat(field, 64); i >= 11 && i < 15 && err == nil {
				ticks += n
			}
		}
	}
	const usPerTick = 1e6 / 100
	return []cost{{"transactions", transactions}, {"kB of its log", wal / 1000}, {"µs of its processor", ticks * usPerTick}}, nil
}
