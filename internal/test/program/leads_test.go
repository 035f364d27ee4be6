//go:build linux

package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// TestLeads asks, with the programs of docs/operations.md, a leader and a standby that hold a lease
// without a command, and nobody.
func TestLeads(t *testing.T) {
	t.Parallel()
	programs := blocks(t, "docs/operations.md")
	asks := map[string]struct{ run, text string }{
		"leads.sh":   {"sh", "BLOCK\nif leads; then echo true; else echo false; fi"},
		"leads.py":   {"python3", "BLOCK\nprint('true' if leads() else 'false')"},
		"leads.js":   {"node", "BLOCK\nleads().then((yes) => console.log(yes))"},
		"leads.go":   {"go run", "package main\nimport (\"net/http\"; \"time\")\nBLOCK\nfunc main() { println(leads()) }"},
		"Leads.java": {"java", "import java.io.*; import java.net.*;\nclass Leads {\nBLOCK\npublic static void main(String[] a) { System.out.println(leads()); }\n}"},
	}
	t.Run("java", func(t *testing.T) {
		if why := noJava(); why != nil {
			delete(asks, "Leads.java")
			t.Skip(why)
		}
	})
	dir := t.TempDir()
	ask := func(name, address string) string {
		program := strings.ReplaceAll(programs[name], "127.0.0.1:9090", address)
		host, port, _ := strings.Cut(address, ":")
		program = strings.ReplaceAll(program, `"127.0.0.1", 9090`, `"`+host+`", `+port)
		file := filepath.Join(dir, port+name)
		must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(asks[name].text, "BLOCK", program, 1)), 0o600))
		args := append(strings.Fields(asks[name].run), file)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "http_proxy=http://127.0.0.1:1")
		out, err := cmd.CombinedOutput()
		must.Succeed(t, err)
		return strings.TrimSpace(string(out))
	}
	store := "file:" + t.TempDir() + "/leases"
	hold := func(address string) *exec.Cmd {
		cmd := exec.Command("leaderrun", "hold", "--store", store, "--key", "queue", "--wait", "forever", "--metrics-listen", address)
		must.Succeed(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		})
		return cmd
	}
	becomes := func(name, address, want string) {
		t.Helper()
		var got string
		for end := time.Now().Add(time.Minute); got != want; {
			if got = ask(name, address); time.Now().After(end) {
				t.Fatalf("%s at %s says %q, want %q", name, address, got, want)
			}
		}
	}
	first, second := fmt.Sprintf("127.0.0.1:%d", script.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", script.FreePort(t))
	leader := hold(first)
	becomes("leads.sh", first, "true")
	hold(second)
	for name := range asks {
		becomes(name, first, "true")
		becomes(name, second, "false")
	}
	must.Succeed(t, leader.Process.Signal(syscall.SIGTERM))
	for name := range asks {
		becomes(name, second, "true")
		becomes(name, first, "false") // nobody answers
	}
}
