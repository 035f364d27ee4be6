// Package deploy tests the manifests for Kubernetes against Kubernetes' own types.
// It is a module of its own, so that the program's module does without them.
package deploy

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	podsecurity "k8s.io/pod-security-admission/api"
	podpolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of the bases in deploy/kubernetes as kubectl apply -k makes them,
// and one of its components where that is not "". A field that Kubernetes does not have
// is an error.
type manifests struct {
	cronJob    batchv1.CronJob
	deployment appsv1.Deployment
	budget     policyv1.PodDisruptionBudget
}

func render(t *testing.T, component string) (m manifests) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Rel(dir, filepath.Join(here, "kubernetes")) // an absolute one is refused
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + base + "/cronjob, " + base + "/deployment, " + base + "/budget]\n"
	if component != "" {
		text += "components: [" + base + "/" + component + "]\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	strict := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme,
		jsonserializer.SerializerOptions{Yaml: true, Strict: true})
	for _, resource := range resources.Resources() {
		into := map[string]runtime.Object{"CronJob": &m.cronJob, "Deployment": &m.deployment, "PodDisruptionBudget": &m.budget}[resource.GetKind()] // nil: any other
		text, err := resource.AsYAML()
		if err == nil {
			_, _, err = strict.Decode(text, nil, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", resource.CurId(), err)
		}
	}
	return m
}

// pods are those that the manifests make.
func (m manifests) pods() map[string]corev1.PodTemplateSpec {
	return map[string]corev1.PodTemplateSpec{
		"CronJob":    m.cronJob.Spec.JobTemplate.Spec.Template,
		"Deployment": m.deployment.Spec.Template,
	}
}

// internal is an object with Kubernetes' defaults, as its validation takes it.
func internal[T runtime.Object](t *testing.T, from runtime.Object, to T) T {
	t.Helper()
	legacyscheme.Scheme.Default(from)
	if err := legacyscheme.Scheme.Convert(from, to, nil); err != nil {
		t.Fatal(err)
	}
	return to
}

// components are the ways to get the program into a container; the first is the base's.
var components = []string{"", "image-volume", "copied"}

// The API server takes the manifests, and so does a namespace that refuses what is
// not restricted.
func TestKubernetesTakesTheManifests(t *testing.T) {
	checks, err := podpolicy.NewEvaluator(podpolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, component := range append(slices.Clone(components), "service", "hold") {
		m := render(t, component)
		for kind, pod := range m.pods() {
			if r := podpolicy.AggregateCheckResults(checks.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !r.Allowed {
				t.Errorf("%s, %q: %s", kind, component, r.ForbiddenDetail())
			}
		}
		m.cronJob.Namespace, m.deployment.Namespace, m.budget.Namespace = "jobs", "jobs", "jobs"
		options := corevalidation.PodValidationOptions{}
		for kind, refused := range map[string]field.ErrorList{
			"CronJob":             batchvalidation.ValidateCronJobCreate(internal(t, &m.cronJob, &batch.CronJob{}), options),
			"Deployment":          appsvalidation.ValidateDeployment(internal(t, &m.deployment, &apps.Deployment{}), options),
			"PodDisruptionBudget": policyvalidation.ValidatePodDisruptionBudget(internal(t, &m.budget, &policy.PodDisruptionBudget{}), policyvalidation.PodDisruptionBudgetValidationOptions{}),
		} {
			if len(refused) > 0 {
				t.Errorf("%s, %q: %v", kind, component, refused.ToAggregate())
			}
		}
	}
}

// Each way puts the program where the command is.
func TestProgramIsWhereItIsRun(t *testing.T) {
	for _, component := range components {
		for kind, template := range render(t, component).pods() {
			pod, main := template.Spec, template.Spec.Containers[0]
			at := ""
			for _, m := range main.VolumeMounts {
				volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
				if volume < 0 {
					t.Errorf("%s, %q: %s is no volume", kind, component, m.Name)
				} else if m.Name == "leaderrun" {
					at = m.MountPath
				}
			}
			want := map[string]string{"": at + "/leaderrun", "image-volume": at + "/leaderrun", "copied": "/usr/local/bin/leaderrun"}[component]
			if main.Command[0] != want || (at == "") != (component == "copied") {
				t.Errorf("%s, %q: %s is run, want %s", kind, component, main.Command[0], want)
			}
			if component == "" && pod.InitContainers[0].Args[1] != want {
				t.Errorf("%s: %s is installed, and %s run", kind, pod.InitContainers[0].Args[1], want)
			}
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s, %q: %s has the resources %v", kind, component, c.Name, c.Resources)
				}
			}
		}
	}
}

// The pod gets as long as leaderrun needs: the grace of the command, two attempts to
// release, and what hooks and observers may take.
func TestGraceOfPods(t *testing.T) {
	for kind, template := range render(t, "").pods() {
		main := template.Spec.Containers[0]
		end := slices.Index(main.Args, "--")
		if end < 0 || end == len(main.Args)-1 {
			t.Fatalf("no command in %q", main.Args)
		}
		var settings []struct{ Name, Value string }
		// What follows "config" are the flags of a run; the address of a pod is not known here.
		for _, podIP := range []string{"10.0.0.7", "fd00::7"} {
			args := append([]string{"run", ".", "config", "-o", "json", "--store", "redis://redis"}, main.Args[:end]...)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "$(POD_IP)", podIP)
			}
			leaderrun := exec.Command("go", args...)
			leaderrun.Dir = ".."
			var stderr bytes.Buffer
			leaderrun.Stderr = &stderr
			out, err := leaderrun.Output()
			if err == nil {
				err = json.Unmarshal(out, &settings)
			}
			if err != nil {
				t.Fatalf("leaderrun %q: %v\n%s", args, err, stderr.Bytes())
			}
		}
		duration := func(name string) (d time.Duration) {
			for _, s := range settings {
				if s.Name == name {
					d, _ = time.ParseDuration(s.Value)
				}
			}
			if d == 0 {
				t.Fatalf("no %s in %v", name, settings)
			}
			return d
		}
		const hooks, observers = 10 * time.Second, time.Second
		need := duration("kill-after") + duration("ttl")/5 + hooks + observers
		if grace := time.Duration(*template.Spec.TerminationGracePeriodSeconds) * time.Second; grace < need {
			t.Errorf("%s: a grace period of %s, leaderrun may need %s", kind, grace, need)
		}
	}
}

func TestCronJob(t *testing.T) {
	spec := render(t, "").cronJob.Spec
	main := spec.JobTemplate.Spec.Template.Spec.Containers[0]
	if want := "CRON_TZ=" + *spec.TimeZone + " " + spec.Schedule; main.Args[slices.Index(main.Args, "--once-per")+1] != want {
		t.Errorf("the ticks of %q are not those of %q", main.Args, want)
	}
	// What becomes of a pod, by status; a status without a rule counts, and
	// backoffLimit ends the job.
	got := map[int32]batchv1.PodFailurePolicyAction{}
	disruption := batchv1.PodFailurePolicyAction("")
	for _, rule := range spec.JobTemplate.Spec.PodFailurePolicy.Rules {
		if exits := rule.OnExitCodes; exits != nil {
			if *exits.ContainerName != main.Name || exits.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn {
				t.Errorf("a rule for %s %s", *exits.ContainerName, exits.Operator)
			}
			for _, status := range exits.Values {
				got[status] = rule.Action
			}
		}
		for _, condition := range rule.OnPodConditions {
			if condition.Type == corev1.DisruptionTarget {
				disruption = rule.Action
			}
		}
	}
	const ignore, fail = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailJob
	want := map[int32]batchv1.PodFailurePolicyAction{76: ignore, 125: fail, 126: fail, 127: fail}
	if !maps.Equal(got, want) || disruption != ignore || *spec.JobTemplate.Spec.BackoffLimit != 0 {
		t.Errorf("by status %v, disrupted pods %q, backoffLimit %d", got, disruption, *spec.JobTemplate.Spec.BackoffLimit)
	}
}

// The budget is for the pods of the Deployment, and leaves one that can take over.
func TestDisruptionBudget(t *testing.T) {
	m := render(t, "")
	const name = "app.kubernetes.io/name"
	if m.budget.Spec.Selector.MatchLabels[name] != m.deployment.Spec.Template.Labels[name] || m.deployment.Spec.Template.Labels[name] == "" ||
		m.budget.Spec.MaxUnavailable.IntValue() >= int(*m.deployment.Spec.Replicas) {
		t.Errorf("the budget %v for %d pods with %v", m.budget.Spec, *m.deployment.Spec.Replicas, m.deployment.Spec.Template.Labels)
	}
}

// What names a key, a label, or a port of the bases names theirs.
func TestNames(t *testing.T) {
	m := render(t, "")
	pods := m.pods()
	object := func(file string, into any) {
		t.Helper()
		text, err := os.ReadFile("kubernetes/" + file)
		if err == nil {
			err = yaml.UnmarshalStrict(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	names, err := os.ReadFile("kubernetes/names/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var network networkingv1.NetworkPolicy
	object("network/networkpolicy.yaml", &network)
	var monitor monitoringv1.PodMonitor
	object("monitor/podmonitor.yaml", &monitor)
	const label = "app.kubernetes.io/name"
	for kind, pod := range pods {
		args := pod.Spec.Containers[0].Args
		if key := args[slices.Index(args, "--key")+1]; !regexp.MustCompile(`value: \[.*leaderrun\.` + key + `\b`).Match(names) {
			t.Errorf("%s: names has no lease of %s", kind, key)
		}
		if values := network.Spec.PodSelector.MatchExpressions[0]; values.Key != label || !slices.Contains(values.Values, pod.Labels[label]) {
			t.Errorf("%s: %v", kind, values)
		}
	}
	port := pods["Deployment"].Spec.Containers[0].Ports[0].Name
	if got := network.Spec.Ingress[0].Ports[0].Port.String(); got != port {
		t.Errorf("the port of the NetworkPolicy is %s", got)
	}
	if got := monitor.Spec.PodMetricsEndpoints[0]; *got.Port != port || monitor.Spec.Selector.MatchLabels[label] != pods["Deployment"].Labels[label] {
		t.Errorf("%v, of %v", got, monitor.Spec.Selector)
	}
}

// hold runs beside the program, from before it until after it.
func TestHold(t *testing.T) {
	pod := render(t, "hold").deployment.Spec.Template.Spec
	hold, main := pod.InitContainers[0], pod.Containers[0]
	if hold.RestartPolicy == nil || *hold.RestartPolicy != corev1.ContainerRestartPolicyAlways || hold.Args[0] != "hold" || hold.Command != nil ||
		hold.ReadinessProbe == nil || hold.LivenessProbe == nil || len(hold.Env) == 0 || len(hold.VolumeMounts) != 1 {
		t.Errorf("%+v", hold)
	}
	if main.ReadinessProbe != nil || main.LivenessProbe != nil || main.Ports != nil || main.Args != nil || main.VolumeMounts != nil || len(pod.Volumes) != 1 {
		t.Errorf("%+v, volumes %v", main, pod.Volumes)
	}
}
