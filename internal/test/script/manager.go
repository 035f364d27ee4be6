//go:build linux

package script

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// manager takes the place of systemd: it writes the messages at NOTIFY_SOCKET to a file.
func manager(ts *testscript.TestScript, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: manager FILE")
	}
	dir, err := os.MkdirTemp("", "notify") // a socket's path must be short
	ts.Check(err)
	socket := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	ts.Check(err)
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Setenv("NOTIFY_SOCKET", socket)
	ts.Defer(func() {
		_ = conn.Close()
		_ = os.RemoveAll(dir)
	})
	go func() {
		defer file.Close()
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			fmt.Fprintf(file, "%s\n", b[:n])
		}
	}()
}
