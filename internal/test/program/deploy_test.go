//go:build linux

package program

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		promtool := exec.Command("promtool", args...)
		promtool.Dir = "deploy/prometheus"
		if out, err := promtool.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// A collector can read the metrics of status.
func TestKeyMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.Open("cmd/testdata/golden/status.openmetrics")
	must.Succeed(t, err)
	defer text.Close()
	promtool := exec.Command("promtool", "check", "metrics")
	promtool.Stdin = text
	if out, err := promtool.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The dashboard's queries are valid, and the dashboard and the alerts use only our metrics.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text := must.Read(t, "deploy/grafana/leaderrun.json")
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(text), &dashboard))
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for _, p := range dashboard.Panels {
		rules += fmt.Sprintf("  - record: panel\n    labels: {title: %q}\n    expr: %q\n", p.Title, p.Targets[0].Expr)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(rules), 0o600))
	if out, err := exec.Command("promtool", "check", "rules", file).CombinedOutput(); err != nil || len(dashboard.Panels) == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	alerts := must.Read(t, "deploy/prometheus/alerts.yaml")
	settings := must.Read(t, "docs/settings.md") // whose table a test compares with the code
	keys := must.Read(t, "cmd/testdata/golden/status.openmetrics")
	for _, name := range regexp.MustCompile(`\bleader(?:run)?_[a-z_]+`).FindAllString(rules+alerts, -1) {
		if !strings.Contains(settings, "| `"+name+"` |") && !strings.Contains(keys, "# TYPE "+name+" ") {
			t.Errorf("%s is no metric", name)
		}
	}
}

func TestPackagedFiles(t *testing.T) {
	t.Parallel()
	settings := must.Read(t, "deploy/package/leaderrun.yaml")
	// As it is, and with every example uncommented.
	for _, text := range []string{settings, strings.NewReplacer("\n#store", "\nstore", "\n#prefix", "\nprefix", "\n#ttl", "\nttl", "\n#kill", "\nkill").Replace(settings)} {
		file := filepath.Join(t.TempDir(), "leaderrun.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		if out, err := exec.Command("leaderrun", "config", "--config", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	crontab := must.Read(t, "deploy/cron/nightly")
	_, line, _ := strings.Cut(crontab, "/usr/bin/leaderrun ")
	flags, _, ok := strings.Cut(line, " -- ")
	if out, err := exec.Command("leaderrun", append([]string{"config"}, strings.Fields(flags)...)...).CombinedOutput(); err != nil || !ok {
		t.Errorf("%v\n%s", err, out)
	}
}

// How systemd sees the unit's start and end (scripts/try-systemd uses a real one). A stopped
// unit has not failed, whether its command catches TERM or dies of it. A unit whose lease
// was released by an operator restarts and stands by.
func TestUnit(t *testing.T) {
	t.Parallel()
	text := must.Read(t, "deploy/systemd/leaderrun@.service")
	unit := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		unit[m[1]] = m[2]
	}
	if unit["Type"] == "notify" {
		t.Error("beside a leader its start would not end, nor would a boot that wants it")
	}
	line, _, _ := strings.Cut(strings.ReplaceAll(unit["ExecStart"], "%i", "queue"), " $COMMAND")
	for _, onTERM := range []string{`trap "exit 0" TERM`, ":"} {
		env := append(os.Environ(), "LEADERRUN_STORE=file:"+filepath.Join(t.TempDir(), "store"),
			"LEADERRUN_TTL=3s") // the holder of a file store learns of a release by its next renewal
		end := func(stop func(*os.Process) error) string {
			words := append(strings.Fields(line)[1:], "sh", "-c", onTERM+"; echo up; while :; do sleep 0.02; done")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "leaderrun", words...)
			cmd.Env = env
			out, err := cmd.StdoutPipe()
			must.Succeed(t, err)
			must.Succeed(t, cmd.Start())
			_, _ = out.Read(make([]byte, len("up\n")))
			must.Succeed(t, stop(cmd.Process))
			return strconv.Itoa(status(t, cmd))
		}
		clean := append(strings.Fields(unit["SuccessExitStatus"]), "0")
		if code := end(func(p *os.Process) error { return p.Signal(syscall.SIGTERM) }); !slices.Contains(clean, code) {
			t.Errorf("%s: stopped, it ends with %s, which is none of %q", onTERM, code, clean)
		}
		code := end(func(*os.Process) error {
			release := exec.Command("leaderrun", "release", "--key", "queue")
			release.Env = env
			return release.Run()
		})
		if unit["Restart"] != "always" && (unit["Restart"] != "on-failure" || slices.Contains(clean, code)) {
			t.Errorf("%s: released, it ends with %s, and Restart=%s leaves it down", onTERM, code, unit["Restart"])
		}
	}
}
