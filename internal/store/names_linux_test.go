package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

var dark, up = [4]byte{127, 0, 0, 9}, [4]byte{127, 0, 0, 2}

// In all tests every name has two addresses: calls that a test gave up may read the resolver.
func TestMain(m *testing.M) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		resolver, server := net.Pipe()
		go serveNames(server, dark, up)
		return resolver, nil
	}}
	m.Run()
}

// At a name's first address all packets are dropped. Each store reaches the second one, where
// all connections are closed, within a call of one second.
func TestOneAddressOfANameIsDark(t *testing.T) {
	port := listenDark(t, dark)
	server, err := net.Listen("tcp", fmt.Sprintf("%s:%d", net.IP(up[:]), port))
	must.Succeed(t, err)
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()

	at := fmt.Sprintf("store.example:%d", port)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	must.Succeed(t, os.WriteFile(kubeconfig, []byte(`{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u}],
		clusters: [{name: c, cluster: {server: "https://`+at+`"}}]}`), 0o600))
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	for _, address := range []string{"redis://" + at, "postgres://u@" + at + "/d", "mysql://u@" + at + "/d", "etcd://" + at, "kubernetes://c/d", "s3://leases?endpoint=http://" + at} {
		s, err := Open(location.Options{URL: address, Prefix: "p"})
		must.Succeed(t, err)
		defer s.Close()
		holder := lease.NewHolder("h", 1)
		for who, call := range map[string]func(context.Context) error{
			"candidate": func(ctx context.Context) error {
				_, err := s.Acquire(ctx, lease.Request{Key: "k", Holder: holder, TTL: 10 * time.Second})
				return err
			},
			"holder": func(ctx context.Context) error {
				_, err := s.Renew(ctx, lease.Lease{Key: "k", Holder: holder, Token: 1, TTL: 10 * time.Second})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := call(ctx); err == nil || strings.HasSuffix(err.Error(), ": no answer in time") {
				t.Errorf("%s, %s: %v", address, who, err)
			}
			cancel()
		}
	}
}

// listenDark makes a port of an address drop what would open a connection, and returns the
// port: its backlog is full.
func listenDark(t *testing.T, ip [4]byte) int {
	t.Helper()
	l, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = syscall.Close(l) })
	must.Succeed(t, syscall.Bind(l, &syscall.SockaddrInet4{Addr: ip}))
	must.Succeed(t, syscall.Listen(l, 0))
	name, err := syscall.Getsockname(l)
	must.Succeed(t, err)
	port := name.(*syscall.SockaddrInet4).Port
	for range 10 {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", net.IP(ip[:]), port), 100*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("its backlog is never full")
	return 0
}

// serveNames answers every request for IPv4 addresses, as over TCP, with the given ones.
func serveNames(c net.Conn, ips ...[4]byte) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint16(size[:]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(c, request); err != nil || m.Unpack(request) != nil {
			return
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			for _, ip := range ips {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: ip}})
			}
		}
		answer, err := m.AppendPack(make([]byte, 2))
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2)) //nolint:gosec // a hundred bytes
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
