package redis

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

func TestUnreachable(t *testing.T) {
	networktest.Unreachable(t, "redis at h:6379", "the store's URL", func(dial network.Dial) *Store {
		return openWith(t, Options{URL: "redis://:sesame@h", Prefix: prefix, Dialer: dial})
	}, calls)
}

// What a real server refuses, and what is made of it.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	const acl = "cron on >sesame ~leaderrun:* -@all "
	for _, c := range []struct {
		name       string
		args       []string
		user, path string
		prepare    []string // commands, run by the default user
		permanent  bool
		says, hint string
	}{
		{name: "no eval", args: user(acl + strings.Replace(rights, "+eval ", "", 1)), user: "cron:sesame@", permanent: true, says: "NOPERM", hint: "+eval"},
		{name: "no get", args: user(acl + strings.Replace(rights, "+get ", "", 1)), user: "cron:sesame@", permanent: true, says: " run th", hint: "+get"},
		{name: "no select", args: user(acl + rights), user: "cron:sesame@", path: "/3", permanent: true, says: "NOPERM", hint: "+select"},
		{name: "no such user", args: user("default off nopass"), user: ":sesame@", permanent: true, says: "AUTH <password> called", hint: "name the user"},
		{name: "no scripts", args: []string{"--rename-command", "EVAL", ""}, permanent: true, says: "unknown command", hint: "version 6"},
		{name: "renamed", args: []string{"--rename-command", "PTTL", ""}, permanent: true, says: "command called from script", hint: "rename-command"},
		{name: "cluster", args: []string{"--cluster-enabled", "yes"}, prepare: []string{"CLUSTER ADDSLOTSRANGE 0 16383"}, permanent: true, says: "CROSSSLOT", hint: "redis-cluster://HOST"},
		{name: "replica", prepare: []string{"REPLICAOF 127.0.0.1 1"}, says: "READONLY", hint: "replica"},
		{name: "a replica that takes writes", args: []string{"--replica-read-only", "no"}, prepare: []string{"REPLICAOF 127.0.0.1 1"}, says: "READONLY", hint: "replica"},
		{name: "replica cut off", args: []string{"--replica-serve-stale-data", "no"}, prepare: []string{"REPLICAOF 127.0.0.1 1"}, says: "MASTERDOWN", hint: "replica"},
		{name: "too few replicas", args: []string{"--min-replicas-to-write", "1"}, says: "NOREPLICAS", hint: "replicas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := script.StartRedis(t, c.args...)
			b := backend{raw: rawClient(t, server.Addr)}
			for _, line := range c.prepare {
				var args []any
				for _, word := range strings.Fields(line) {
					args = append(args, word)
				}
				b.do(t, args...)
			}
			s := open(t, c.user+server.Addr+c.path)
			for range 2 {
				err := networktest.Refused(t, s)
				networktest.WantError(t, err, c.permanent, c.says, c.hint)
				networktest.WantError(t, err, c.permanent, "acquire: redis at "+server.Addr+": ", "")
			}
		})
	}
}

func TestRightsComeBack(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	set := func(rule string) func() { return func() { b.do(t, "ACL", "SETUSER", "cron", rule) } }
	b.do(t, "ACL", "SETUSER", "cron", "on", ">sesame", "~*", "+@all")
	open := func() networktest.Store {
		return openWith(t, Options{URL: networktest.As(t, "redis://"+b.addr, "cron"), Prefix: prefix})
	}
	for name, rules := range map[string][2]string{"scripts": {"-eval", "+eval"}, "in a script": {"-time", "+time"}, "keys": {"resetkeys", "~*"}} {
		t.Run(name, func(t *testing.T) {
			b.do(t, "FLUSHALL")
			networktest.RightsComeBack(t, open, openWith(t, Options{URL: "redis://" + b.addr, Prefix: prefix}), set(rules[0]), set(rules[1]), "")
		})
	}
}

// user is an ACL user as an argument of redis-server.
func user(rules string) []string { return append([]string{"--user"}, strings.Fields(rules)...) }

// Errors that a real server gives only in states that are hard to cause.
func TestServerIsUnwell(t *testing.T) {
	for _, c := range []struct {
		answer    string
		permanent bool
		says      string
		hint      string
	}{
		{"-LOADING Redis is loading the dataset in memory", false, "LOADING", "wait until"},
		{"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", false, "BUSY", "SCRIPT KILL"},
		{"-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.", false, "MISCONF", "its disk"},
		{"-CLUSTERDOWN The cluster is down", false, "CLUSTERDOWN", "CLUSTER INFO"},
		{"-MOVED 3999 127.0.0.1:6381", true, "MOVED", "redis-cluster://HOST"},
		{"-ERR max number of clients reached", false, "max number of clients", "maxclients"},
		{"-DENIED Redis is running in protected mode because protected mode is enabled", true, "DENIED", "password"},
		{"-NOAUTH Authentication required.", true, "NOAUTH", "redis://[USER]:PASSWORD@HOST"},
		{"-ERR Error running script (call to f_0123): @user_script:47: READONLY You can't write against a read only replica.", false, ": READONLY", "replica"},
		{"-ERR ACL failure in script: User cron has no permissions to run the 'time' command script: 0123, on @user_script:47.", true, ": NOPERM User cron has no permissions to run the 'time' command", "grant this user"},
		{"-ERR something new", false, "something new", ""},
		{"HTTP/1.1 400 Bad Request", false, "HTTP/1.1", "names a Redis"},
		{"*1\r\n:1", false, "something else than leaderrun's script", "names a Redis"},
		{"", false, "closed the connection", "look at its log"},
	} {
		t.Run(fmt.Sprintf("%.20q", c.answer), func(t *testing.T) {
			answer := c.answer
			if answer != "" {
				answer += "\r\n"
			}
			networktest.WantError(t, networktest.Refused(t, open(t, networktest.Answering(t, greeting, answer))), c.permanent, c.says, c.hint)
		})
	}
}

// A server that was started again without its settings file is unwell, but somebody will mend
// that: candidates that it has answered before go on standing by.
func TestServerHasLostItsSettings(t *testing.T) {
	for _, c := range []struct{ answer, says, hint string }{
		{"-DENIED Redis is running in protected mode because protected mode is enabled\r\n", "DENIED", "protected mode"},
		{"-ERR DB index is out of range\r\n", "DB index is out of range", "database number"},
	} {
		var lost atomic.Bool
		addr := speaking(t, greeting, func() string {
			if lost.Load() {
				return c.answer
			}
			return "*2\r\n:1\r\n:1\r\n"
		})
		s := open(t, addr)
		must.Succeed(t, s.Pass(bounded(t), "k"))
		lost.Store(true)
		networktest.WantError(t, networktest.Refused(t, s), false, c.says, c.hint)
		networktest.WantError(t, networktest.Refused(t, open(t, addr)), true, c.says, c.hint)
	}
}

// The documentation, and the scripts that check it, name the same rights. Authentication
// needs none.
func TestRightsAreNamedAlike(t *testing.T) {
	for _, file := range []string{"docs/store-redis.md", "testdata/script/redis/acl.txtar", "testdata/script/redis/doctor_rights.txtar"} {
		text := must.Read(t, "../../../"+file)
		if !strings.Contains(text, " ~leaderrun:* -@all "+rights+"\n") {
			t.Errorf("%s names other rights than %s", file, rights)
		}
	}
}

const greeting = "*0\r\n"

// A write counts only if its own answer says so.
func TestWriteIsAnsweredBySomethingElse(t *testing.T) {
	for _, answer := range []string{
		"*1\r\n:1\r\n", "*2\r\n:1\r\n:1700000000000\r\n", "*3\r\n:1\r\n:1700000000000\r\n$1\r\ns\r\n",
		"*4\r\n:1\r\n:1700000000000\r\n$1\r\ns\r\n$1\r\n7\r\n", "*4\r\n:1\r\n:1700000000000\r\n$1\r\ns\r\n$-1\r\n",
	} {
		addr := speaking(t, greeting, func() string { return answer })
		err := open(t, addr).Do(bounded(t), "acquire", func(ctx context.Context, k keep.Keeper) error {
			r := keep.Row{State: rules.New("k"), Kept: kept{}}
			if _, saved, err := k.Swap(ctx, r, keep.Effect{Renewed: true}); saved || err == nil {
				t.Errorf("%q: saved %t, %v", answer, saved, err)
			}
			return nil
		})
		must.Succeed(t, err)
	}
}
