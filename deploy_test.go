//go:build linux

package main

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

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/leaderrun/leaderrun/internal/scripttest"
)

// decode reads a manifest into Kubernetes' own type; a field that it does not have
// is an error.
func decode[T any](t *testing.T, file string) T {
	t.Helper()
	var object T
	text, err := os.ReadFile(filepath.Join("deploy/kubernetes", file))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &object)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}

// pods are those that the manifests make, by file.
func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	return map[string]corev1.PodTemplateSpec{
		"cronjob.yaml":    decode[batchv1.CronJob](t, "cronjob.yaml").Spec.JobTemplate.Spec.Template,
		"deployment.yaml": decode[appsv1.Deployment](t, "deployment.yaml").Spec.Template,
	}
}

// A namespace may refuse what is not restricted, as Kubernetes' own checks have it.
func TestPodsAreRestricted(t *testing.T) {
	checks, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for file, pod := range pods(t) {
		if r := policy.AggregateCheckResults(checks.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !r.Allowed {
			t.Errorf("%s: %s", file, r.ForbiddenDetail())
		}
	}
}

func TestKubernetes(t *testing.T) {
	scripttest.Install(t, ".", "testdata/script/bin")
	for file, template := range pods(t) {
		t.Run(file, func(t *testing.T) {
			pod := template.Spec
			const killAfter = 10 // the default, in seconds; then comes the release
			if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace < 2*killAfter {
				t.Errorf("a grace period of %v s is too short for --kill-after", grace)
			}
			init, main := pod.InitContainers[0], pod.Containers[0]
			if main.Command[0] != init.Args[1] {
				t.Errorf("%s is installed and %s run", init.Args[1], main.Command[0])
			}
			end := slices.Index(main.Args, "--")
			if end < 0 || end == len(main.Args)-1 {
				t.Fatalf("no command in %q", main.Args)
			}
			// What follows "config" are the flags of a run; the address of a pod is not known here.
			for _, podIP := range []string{"10.0.0.7", "fd00::7"} {
				args := append([]string{"config", "--store", "redis://redis"}, main.Args[:end]...)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "$(POD_IP)", podIP)
				}
				if out, err := exec.Command("leaderrun", args...).CombinedOutput(); err != nil {
					t.Errorf("leaderrun %q: %v\n%s", args, err, out)
				}
			}
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				for _, m := range c.VolumeMounts {
					if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
						t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
					}
				}
			}
		})
	}

	type kustomization struct {
		APIVersion string              `json:"apiVersion"`
		Kind       string              `json:"kind"`
		Resources  []string            `json:"resources"`
		Images     []map[string]string `json:"images"`
	}
	files, err := filepath.Glob("deploy/kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if k := decode[kustomization](t, "kustomization.yaml"); len(k.Resources) != len(files)-1 {
		t.Errorf("%q of the files %q", k.Resources, files)
	}
}

func TestAlerts(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		promtool := exec.Command("promtool", args...)
		promtool.Dir = "deploy/prometheus"
		if out, err := promtool.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// The dashboard's queries are ones, and every metric of theirs and of the alerts'
// is one of ours.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("deploy/grafana/leaderrun.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for _, p := range dashboard.Panels {
		rules += fmt.Sprintf("  - record: panel\n    labels: {title: %q}\n    expr: %q\n", p.Title, p.Targets[0].Expr)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "rules", file).CombinedOutput(); err != nil || len(dashboard.Panels) == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	alerts, err := os.ReadFile("deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile("docs/settings.md") // whose table a test compares with the code
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\bleader(?:run)?_[a-z_]+`).FindAllString(rules+string(alerts), -1) {
		if !strings.Contains(string(settings), "| `"+name+"` |") {
			t.Errorf("%s is no metric", name)
		}
	}
}

func TestPackagedFiles(t *testing.T) {
	scripttest.Install(t, ".", "testdata/script/bin")
	settings, err := os.ReadFile("deploy/package/leaderrun.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// As it is, and with every example of it in force.
	for _, text := range []string{string(settings), strings.NewReplacer("\n#store", "\nstore", "\n#prefix", "\nprefix", "\n#ttl", "\nttl", "\n#kill", "\nkill").Replace(string(settings))} {
		file := filepath.Join(t.TempDir(), "leaderrun.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("leaderrun", "config", "--config", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	crontab, err := os.ReadFile("deploy/cron/nightly")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(crontab), "/usr/bin/leaderrun ")
	flags, _, ok := strings.Cut(line, " -- ")
	if out, err := exec.Command("leaderrun", append([]string{"config"}, strings.Fields(flags)...)...).CombinedOutput(); err != nil || !ok {
		t.Errorf("%v\n%s", err, out)
	}
}

// What systemd makes of the unit's start and end (scripts/try-systemd asks it). One that was stopped has not failed,
// whether its command catches TERM or dies of it; and one whose lease an operator
// had released comes back, to stand by.
func TestUnit(t *testing.T) {
	scripttest.Install(t, ".", "testdata/script/bin")
	text, err := os.ReadFile("deploy/systemd/leaderrun@.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		unit[m[1]] = m[2]
	}
	if unit["Type"] == "notify" {
		t.Error("beside a leader its start would not end, nor would a boot that wants it")
	}
	line, _, _ := strings.Cut(strings.ReplaceAll(unit["ExecStart"], "%i", "queue"), " $COMMAND")
	for _, onTERM := range []string{`trap "exit 0" TERM`, ":"} {
		t.Setenv("LEADERRUN_STORE", "file:"+filepath.Join(t.TempDir(), "store"))
		t.Setenv("LEADERRUN_TTL", "3s") // the holder of a file store learns of a release by its next renewal
		end := func(stop func(*os.Process) error) string {
			words := append(strings.Fields(line)[1:], "sh", "-c", onTERM+"; echo up; while :; do sleep 0.02; done")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "leaderrun", words...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, _ = out.Read(make([]byte, len("up\n")))
			if err := stop(cmd.Process); err != nil {
				t.Fatal(err)
			}
			return strconv.Itoa(status(t, cmd))
		}
		clean := append(strings.Fields(unit["SuccessExitStatus"]), "0")
		if code := end(func(p *os.Process) error { return p.Signal(syscall.SIGTERM) }); !slices.Contains(clean, code) {
			t.Errorf("%s: stopped, it ends with %s, which is none of %q", onTERM, code, clean)
		}
		code := end(func(*os.Process) error { return exec.Command("leaderrun", "release", "--key", "queue").Run() })
		if unit["Restart"] != "always" && (unit["Restart"] != "on-failure" || slices.Contains(clean, code)) {
			t.Errorf("%s: released, it ends with %s, and Restart=%s leaves it down", onTERM, code, unit["Restart"])
		}
	}
}
