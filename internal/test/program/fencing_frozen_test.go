//go:build linux

package program

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// TestFencingFrozenLeader stops a leader in the middle of a transaction. The server ends its
// session, and a newer leader's claim waits no longer than that.
func TestFencingFrozenLeader(t *testing.T) {
	t.Parallel()
	programs := fencing(t)
	t.Run("postgres", func(t *testing.T) {
		server := script.StartPostgres(t, nil)
		answer(t, server.Do, sooner(t, programs["fence.sql"], "'30s'", "'100ms'"))
		frozen := begin(t, "BEGIN; SELECT fence('k', 17); SELECT 'claimed';", "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", server.URL)
		answer(t, server.Do, "SET lock_timeout = '20s'; SELECT fence('k', 18)")
		frozen("COMMIT;")
		if left := answer(t, server.Do, "SHOW idle_in_transaction_session_timeout"); left != "0\n" {
			t.Errorf("it is set beyond the transaction: %s", left)
		}
	})
	t.Run("mysql", func(t *testing.T) {
		server := script.StartMariaDB(t)
		answer(t, server.Do, sooner(t, programs["fence-mysql.sql"], "wait_timeout = 30", "wait_timeout = 1"))
		host, port, _ := net.SplitHostPort(server.Addr) // it has one
		client := []string{"mysql", "--no-defaults", "-h", host, "-P", port, "-u", "admin", "-ps3cret", "-nNB", "jobs"}
		frozen := begin(t, "START TRANSACTION; CALL fence('k', 17); SELECT 'claimed';", client...)
		answer(t, server.Do, "SET innodb_lock_wait_timeout = 20; CALL fence('k', 18)")
		frozen("COMMIT;")

		// A transaction that has read before its claim sees newer claims all the same.
		late := begin(t, "SET wait_timeout = 100; START TRANSACTION; SELECT token FROM fence; SELECT 'claimed';", client...)
		answer(t, server.Do, "CALL fence('k', 19)")
		late("CALL fence('k', 18);")
	})
}

// sooner returns the text with another time.
func sooner(t *testing.T, text, from, to string) string {
	t.Helper()
	if strings.Count(text, from) != 1 {
		t.Fatalf("no %s in %s", from, text)
	}
	return strings.Replace(text, from, to, 1)
}

// begin starts a client that gets its first SQL, and returns once that has been done. With the
// function that it returns the client gets the rest, which must fail.
func begin(t *testing.T, first string, client ...string) func(rest string) {
	t.Helper()
	cmd := exec.Command(client[0], client[1:]...)
	in, err := cmd.StdinPipe()
	must.Succeed(t, err)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, as a rule
	_, err = io.WriteString(in, first+"\n")
	must.Succeed(t, err)
	for said := bufio.NewScanner(out); said.Scan() && said.Text() != "claimed"; {
	}
	return func(rest string) {
		t.Helper()
		_, _ = io.WriteString(in, rest+"\n") // it may have ended
		_ = in.Close()
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s has succeeded", rest)
		}
	}
}
