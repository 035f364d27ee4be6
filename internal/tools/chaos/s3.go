//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

var s3World = world{
	name: "s3", apart: membersApart, ttl: 10 * time.Second, // the store's shortest
	has: []need{proxied},
	open: func(at site) (backend, error) {
		s := &s3Server{}
		if err := s.open(at); err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	},
}

// s3Server is an S3 server (internal/test/s3), behind a proxy that lets one write at a time pass.
// After SIGKILL it has all that it acknowledged: the kernel has it.
type s3Server struct {
	leads[*node]
	process node
	addr    string // of the proxy
	end     func()
}

func (s *s3Server) open(at site) error {
	data := filepath.Join(at.dir, "s3")
	if err := os.MkdirAll(filepath.Join(data, script.S3Bucket), 0o700); err != nil {
		return err
	}
	ports, err := freePorts(at.addr, 1)
	if err != nil {
		return err
	}
	addr := net.JoinHostPort(at.addr, ports[0])
	log, err := os.Create(filepath.Join(at.dir, "s3.log"))
	if err != nil {
		return err
	}
	s.leads = alone(&s.process, s)
	s.process.env = append(os.Environ(), "ROOT_ACCESS_KEY="+script.S3ID, "ROOT_SECRET_KEY="+script.S3Secret)
	s.process.command = func() *exec.Cmd {
		cmd := exec.Command("s3", "--port", addr, "posix", data)
		cmd.Stdout, cmd.Stderr = log, log
		return cmd
	}
	environment.Lock()
	_ = os.Setenv("AWS_ACCESS_KEY_ID", script.S3ID)
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", script.S3Secret)
	environment.Unlock()
	if s.addr, s.end, err = script.Serve(net.JoinHostPort(at.addr, "0"), script.OneAtATime(addr)); err != nil {
		return err
	}
	return s.start()
}

func (s *s3Server) servers() []string { return []string{s.addr} }

func (s *s3Server) url(proxies []string) string {
	return "s3://" + script.S3Bucket + "/jobs?endpoint=http://" + append(proxies, s.addr)[0]
}

func (s *s3Server) stop() {
	s.process.end()
	if s.end != nil {
		s.end()
	}
}
