// Package deploy tests the manifests for Kubernetes against Kubernetes' own types.
// It is a module of its own, so that the program's module does without them.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// decode reads a manifest into Kubernetes' own type; a field that it does not have
// is an error.
func decode[T any](t *testing.T, file string) T {
	t.Helper()
	var object T
	text, err := os.ReadFile(filepath.Join("kubernetes", file))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &object)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}

// leaderrun is the program of the module above.
func leaderrun(args ...string) *exec.Cmd {
	cmd := exec.Command("go", append([]string{"run", "."}, args...)...)
	cmd.Dir = ".."
	return cmd
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
				if out, err := leaderrun(args...).CombinedOutput(); err != nil {
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

	cronJob := decode[batchv1.CronJob](t, "cronjob.yaml").Spec
	args := cronJob.JobTemplate.Spec.Template.Spec.Containers[0].Args
	if want := "CRON_TZ=" + *cronJob.TimeZone + " " + cronJob.Schedule; args[slices.Index(args, "--once-per")+1] != want {
		t.Errorf("the ticks of %q are not those of %q", args, want)
	}

	type kustomization struct {
		APIVersion string              `json:"apiVersion"`
		Kind       string              `json:"kind"`
		Resources  []string            `json:"resources"`
		Images     []map[string]string `json:"images"`
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if k := decode[kustomization](t, "kustomization.yaml"); len(k.Resources) != len(files)-1 {
		t.Errorf("%q of the files %q", k.Resources, files)
	}
}
