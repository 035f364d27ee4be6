//go:build linux

package program

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// TestScripts runs testdata/script: those in run with each store, on one server; those in plug,
// which stop the server, with each store, on servers of their own; those in elector, which do
// not depend on the store's technology, with a directory and with Redis; those in cli once;
// those of a store with that store. The stores' part of ticks, holds and tokens is tested in
// lease/leasetest, the hosts' part in internal/campaign, in virtual time, and over days with
// faults in internal/test/simulate. The helpers of the scripts are in testdata/script/bin.
func TestScripts(t *testing.T) {
	t.Parallel()
	const onOne = "testdata/script/run"
	type group struct {
		name, dir string
		store     script.Store
	}
	groups := []group{
		{"elector-file", "testdata/script/elector", script.File},
		{"elector-redis", "testdata/script/elector", script.Redis},
		{"redis-only", "testdata/script/redis", script.Redis},
		{"postgres-only", "testdata/script/postgres", script.Postgres},
		{"mysql-only", "testdata/script/mysql", script.MySQL},
		{"etcd-only", "testdata/script/etcd", script.EtcdCluster},
		{"kubernetes-only", "testdata/script/kubernetes", script.Kubernetes},
		{"s3-only", "testdata/script/s3", script.S3},
		{"s3-plug", "testdata/script/plug", script.S3}, // those in run expect a first grant at once
		{"cli", "testdata/script/cli", script.File},
	}
	for _, store := range []script.Store{script.File, script.Redis, script.Postgres, script.MySQL, script.Etcd, script.Kubernetes} {
		groups = append(groups, group{string(store), onOne, store}, group{string(store) + "-plug", "testdata/script/plug", store})
	}
	all, err := filepath.Glob("testdata/script/*/*.txtar")
	for _, g := range groups {
		all = slices.DeleteFunc(all, func(file string) bool { return filepath.Dir(file) == g.dir })
	}
	stray, _ := filepath.Glob("testdata/script/*.txtar") // fails on a bad pattern only
	if stray = append(stray, all...); len(stray) > 0 || err != nil {
		t.Errorf("no group of scripts has %q: put them into run, cli or the folder of their store (%v)", stray, err)
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			if g.dir == onOne {
				script.RunOnOne(t, g.dir, g.store)
			} else {
				script.Run(t, g.dir, g.store)
			}
		})
	}
}

// Every setting has a script that runs a command with it, not only one where it is refused.
func TestEverySettingIsTried(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*/*.txtar")
	must.Succeed(t, err)
	var runs []string // with what stands before the command
	for _, file := range files {
		text := must.Read(t, file)
		for line := range strings.Lines(text) {
			before, _, found := strings.Cut(line, " -- ")
			if found && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "refused ") && !strings.HasPrefix(line, "exitcode 125 ") {
				runs = append(runs, before+" ")
			}
		}
	}
	for _, group := range settings.Groups {
		for _, setting := range group.Settings {
			flag := " --" + setting.Name + "[ =]"
			if setting.Short != "" {
				flag += "| -" + setting.Short
			}
			flag = "leaderrun .*?(" + flag + ")"
			if !slices.ContainsFunc(runs, regexp.MustCompile(flag).MatchString) {
				t.Errorf("no script in testdata/script runs a command with --%s: show what it does in one", setting.Name)
			}
		}
	}
}
