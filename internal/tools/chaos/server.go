//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// server is a store of one server with its own wall clock. After SIGKILL it has all that it
// acknowledged, unless a fault removes that: the kernel has the data.
type server struct {
	leads
	addr, at string // at is the store's address
	dir      string // of its data
	// lock makes requests that write wait for that long. Without the need locks it is nil.
	lock func(time.Duration) error
}

// alone returns the store of one server.
func alone(s script.Server, addr, at, dir string) *server {
	b := &server{addr: addr, at: at, dir: dir}
	b.leads = leads{leading: func() script.Server { return s }, ready: func() { answers(b) }}
	return b
}

// forgetful is alone for a server that is faketime's, and whose data can be taken back.
func forgetful(s script.Server, addr, at, dir string) *server {
	b := alone(s, addr, at, dir)
	b.setClock(0)
	b.save(blank)
	return b
}

func openRedis(at *rig) backend {
	s := script.StartRedis(at, "--appendonly", "yes", "--appendfsync", "no", "--maxclients", slots)
	b := forgetful(s, s.Addr, "redis://"+s.Addr, s.Dir)
	b.lock = func(d time.Duration) error { return keepBusy(s.Addr, d) }
	return b
}

func openPostgres(at *rig) backend {
	s := script.StartPostgres(at, map[string]string{"pg_hba.conf": "host all all all trust\n"}, "max_connections="+slots)
	b := forgetful(s, s.Addr, s.URL+"?sslmode=disable", s.Dir)
	b.lock = func(d time.Duration) error {
		_, err := s.Do(fmt.Sprintf("BEGIN; LOCK TABLE leaderrun_leases IN SHARE MODE; SELECT pg_sleep(%f); COMMIT", d.Seconds()))
		return err
	}
	return b
}

func openMariaDB(at *rig) backend {
	s := script.StartMariaDB(at, "--max-connections="+slots)
	b := forgetful(s, s.Addr, s.URL, s.Dir)
	b.lock = func(d time.Duration) error {
		_, err := s.Do(fmt.Sprintf("LOCK TABLES leaderrun_leases READ; DO SLEEP(%f)", d.Seconds()))
		return err
	}
	return b
}

func openS3(at *rig) backend {
	s := script.StartS3(at)
	must.Check(os.Setenv("AWS_ACCESS_KEY_ID", script.S3ID))
	must.Check(os.Setenv("AWS_SECRET_ACCESS_KEY", script.S3Secret))
	return alone(s, s.Addr, s.URL(), s.Dir)
}

func (s *server) servers() []string { return []string{s.addr} }

func (s *server) url(proxies []string) string {
	return strings.Replace(s.at, s.addr, append(proxies, s.addr)[0], 1)
}

func (s *server) setClock(ahead time.Duration) { s.leading().SetClock(clockAhead(ahead)) }

// clockAhead is a clock with a distance from that of this host.
func clockAhead(by time.Duration) string { return fmt.Sprintf("%+.3f", by.Seconds()) }

// Copies of the data that a server may restart with.
const (
	blank    = "blank"    // made at the start
	snapshot = "snapshot" // made at any time
)

// save copies the server's data at one moment: it starts with them as after a crash.
func (s *server) save(as string) {
	s.freeze()
	defer s.leading().Cont()
	copyFolder(s.dir, s.dir+"-"+as)
}

// restartWith kills the server and restarts it after that time with the data of a copy.
func (s *server) restartWith(ctx context.Context, copied string, after time.Duration) {
	s.kill()
	copyFolder(s.dir+"-"+copied, s.dir)
	pause(ctx, after)
	s.start()
}

// copyFolder replaces a folder by a copy of another one, with the owners of its files.
func copyFolder(from, to string) {
	must.Check(os.RemoveAll(to))
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		must.Check(fmt.Errorf("cp -a %s %s: %w\n%s", from, to, err, out))
	}
	_ = os.Remove(filepath.Join(to, "postmaster.pid")) // of a Postgres that is not this one
}

// keepBusy has three clients send commands of about a tenth of a second, one after the other.
func keepBusy(addr string, d time.Duration) error {
	const command = "for i = 1, 1.2e7 do end"
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	var all sync.WaitGroup
	errs := make([]error, 3)
	till := clock() + d
	for i := range errs {
		all.Go(func() {
			for clock() < till && errs[i] == nil {
				if err := client.Eval(context.Background(), command, nil).Err(); !errors.Is(err, redis.Nil) {
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// fill takes as many connections as the server allows, until ctx ends.
func (s *server) fill(ctx context.Context) {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		taken := open(s)
		_, err := taken.Inspect(attempt, "none")
		cancel()
		if err != nil { // it is full
			_ = taken.Close()
			pause(ctx, lookEvery)
			continue
		}
		defer func() { _ = taken.Close() }() // it keeps its connection until then
	}
}
