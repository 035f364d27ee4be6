//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var redisWorld = world{
	name: "redis", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections},
	open: func(at site) (backend, error) { return newRedis(at.addr, at.dir, slots) },
}

// newRedis starts a server that allows slots connections, and keeps its data in a folder of
// append-only files. A copy may have half of the last command, as after a crash.
func newRedis(host, dir string, slots int) (*server, error) {
	t := technology{dir: dir, data: filepath.Join(dir, "appendonlydir"), connect: connectRedis}
	t.at = func(addr string) string { return "redis://" + addr }
	t.program = func(host, port string) *exec.Cmd {
		// The kernel has all acknowledged data, and outlives the process. To wait for the
		// disk would only take time.
		return exec.Command("redis-server", "--port", port, "--bind", host, "--protected-mode", "no", "--save", "", "--maxclients", strconv.Itoa(slots),
			"--appendonly", "yes", "--appendfsync", "no", "--dir", dir, "--logfile", filepath.Join(dir, "redis.log"))
	}
	if err := os.Mkdir(t.data, 0o700); err != nil {
		return nil, err
	}
	return newServer(t, host)
}

func connectRedis(ctx context.Context, addr string) (func(), error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a server that is stopped does not answer
	answer := make([]byte, len("+PONG\r\n"))
	if _, err = io.WriteString(c, "PING\r\n"); err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err == nil && !strings.HasPrefix(string(answer), "+PONG") {
		err = fmt.Errorf("%w: %s", syscall.EAGAIN, answer)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return func() { c.Close() }, nil
}
