package deploy

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// What kubectl apply -k makes of the example: pods of images that everybody can pull, with a service
// account that may do what leaderrun needs, and the store's address.
func TestExample(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kubernetes/example")
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.PodSpec
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	var account corev1.ServiceAccount
	var secret corev1.Secret
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var job batchv1.CronJob
		var service appsv1.Deployment
		into := map[string]any{"CronJob": &job, "Deployment": &service, "Role": &role, "RoleBinding": &binding, "ServiceAccount": &account, "Secret": &secret, "PodDisruptionBudget": new(policyv1.PodDisruptionBudget)}[r.GetKind()]
		if into == nil {
			t.Fatalf("a %s is not tested", r.GetKind())
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, pod := range []corev1.PodSpec{job.Spec.JobTemplate.Spec.Template.Spec, service.Spec.Template.Spec} {
			if pod.Containers != nil {
				pods = append(pods, pod)
			}
		}
	}
	if len(pods) != 2 || string(secret.Data["store"])+secret.StringData["store"] != "kubernetes:" {
		t.Errorf("%d pods, secret %v", len(pods), secret.Data)
	}
	for _, pod := range pods {
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if name, version, _ := strings.Cut(c.Image, ":"); version == "" || version == "latest" || name != "busybox" && name != "ghcr.io/leaderrun/leaderrun" {
				t.Errorf("%s has the image %s", c.Name, c.Image)
			}
		}
		if pod.ServiceAccountName != account.Name || pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
			t.Errorf("%s: its account is %q, mounted: %v", pod.Containers[0].Name, pod.ServiceAccountName, pod.AutomountServiceAccountToken)
		}
		if !slices.ContainsFunc(pod.Containers[0].Env, func(v corev1.EnvVar) bool {
			return v.Name == "LEADERRUN_STORE" && v.ValueFrom.SecretKeyRef.Name == secret.Name && v.ValueFrom.SecretKeyRef.Key == "store"
		}) {
			t.Errorf("%s: %v", pod.Containers[0].Name, pod.Containers[0].Env)
		}
	}
	if binding.RoleRef.Name != role.Name || binding.RoleRef.Kind != "Role" || len(binding.Subjects) != 1 || binding.Subjects[0].Name != account.Name || binding.Subjects[0].Kind != "ServiceAccount" {
		t.Errorf("%+v", binding)
	}
	// The API server of internal/test/apiserver gives its user these rights and no others.
	if r := role.Rules; len(r) != 1 || !slices.Equal(r[0].APIGroups, []string{"coordination.k8s.io"}) || !slices.Equal(r[0].Resources, []string{"leases"}) ||
		!slices.Equal(r[0].Verbs, []string{"get", "create", "update", "watch"}) || r[0].ResourceNames != nil {
		t.Errorf("%+v", r)
	}
}
