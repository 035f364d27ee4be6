package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
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
		{name: "no password", args: []string{"--requirepass", "sesame"}, permanent: true, says: "NOAUTH Authentication required", hint: "redis://:PASSWORD@HOST"},
		{name: "wrong password", args: []string{"--requirepass", "sesame"}, user: ":sesame2@", permanent: true, says: "WRONGPASS", hint: "password"},
		{name: "unknown user", user: "nobody:sesame@", permanent: true, says: "WRONGPASS", hint: "user"},
		{name: "no eval", args: user(acl + strings.Replace(rights, "+eval ", "", 1)), user: "cron:sesame@", permanent: true, says: "NOPERM", hint: "+eval"},
		{name: "no get", args: user(acl + strings.Replace(rights, "+get ", "", 1)), user: "cron:sesame@", permanent: true, says: " run th", hint: "+get"},
		{name: "no set", args: user(acl + strings.Replace(rights, "+hset ", "", 1)), user: "cron:sesame@", permanent: true, says: " run th", hint: "+hset"},
		{name: "other keys", args: user("cron on >sesame ~x:* +@all"), user: "cron:sesame@", permanent: true, says: "NOPERM", hint: "~PREFIX:*"},
		{name: "no such database", path: "/99", permanent: true, says: "DB index is out of range", hint: "smaller database number"},
		{name: "the lease is a list", prepare: []string{"RPUSH leaderrun:leader:k x"}, permanent: true, says: ": leaderrun:leader:k: WRONGTYPE", hint: "--prefix"},
		{name: "the state is a string", prepare: []string{"SET leaderrun:state:{leaderrun:leader:k} x"}, permanent: true, says: "WRONGTYPE", hint: "--prefix"},
		{name: "no scripts", args: []string{"--rename-command", "EVAL", ""}, permanent: true, says: "unknown command", hint: "version 6"},
		{name: "cluster", args: []string{"--cluster-enabled", "yes"}, prepare: []string{"CLUSTER ADDSLOTSRANGE 0 16383"}, permanent: true, says: "CROSSSLOT", hint: "redis-cluster://HOST"},
		{name: "replica", prepare: []string{"REPLICAOF 127.0.0.1 1"}, says: "READONLY", hint: "replica"},
		{name: "replica cut off", args: []string{"--replica-serve-stale-data", "no"}, prepare: []string{"REPLICAOF 127.0.0.1 1"}, says: "MASTERDOWN", hint: "replica"},
		{name: "too few replicas", args: []string{"--min-replicas-to-write", "1"}, says: "NOREPLICAS", hint: "replicas"},
		{name: "memory full", prepare: []string{"CONFIG SET maxmemory 1"}, says: "OOM", hint: "maxmemory"},
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
		{"-CLUSTERDOWN The cluster is down", false, "CLUSTERDOWN", "CLUSTER INFO"},
		{"-MOVED 3999 127.0.0.1:6381", true, "MOVED", "redis-cluster://HOST"},
		{"-ERR max number of clients reached", false, "max number of clients", "maxclients"},
		{"-DENIED Redis is running in protected mode because protected mode is enabled", true, "DENIED", "password"},
		{"-NOAUTH Authentication required.", true, "NOAUTH", "redis://:PASSWORD@HOST"},
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

// While a server is busy, with loading its data or with somebody's script, no connection gets an
// answer that counts; afterwards all works.
func TestServerIsBusy(t *testing.T) {
	for _, c := range []struct {
		name, says, hint string
		settings         []any
		makeBusy         []any
		end              []any // nothing: it ends by itself
	}{
		{
			name: "loading", says: "LOADING", hint: "wait until",
			settings: []any{"CONFIG", "SET", "key-load-delay", "2000", "loading-process-events-interval-bytes", "1024"},
			makeBusy: []any{"DEBUG", "RELOAD"},
		},
		{
			name: "a script", says: "BUSY", hint: "SCRIPT KILL",
			settings: []any{"CONFIG", "SET", "busy-reply-threshold", "1"},
			makeBusy: []any{"EVAL", "while true do end", 0},
			end:      []any{"SCRIPT", "KILL"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := script.StartRedis(t, "--enable-debug-command", "yes", "--dbfilename", "busy.rdb")
			b, other := backend{raw: rawClient(t, server.Addr)}, rawClient(t, server.Addr)
			b.do(t, "EVAL", "for i = 1, 1000 do redis.call('SET', 'x' .. i, string.rep('x', 100)) end", 0)
			warm := open(t, server.Addr)
			l := grant(t, warm, request("warm"))
			b.do(t, c.settings...)
			busy := networktest.Start(func() error { return other.Do(t.Context(), c.makeBusy...).Err() })

			s := open(t, server.Addr)
			for deadline := time.Now().Add(10 * time.Second); ; {
				_, err := s.Acquire(bounded(t), request("k"))
				if failure, ok := errors.AsType[*lease.StoreError](err); ok {
					networktest.WantError(t, failure, false, c.says, c.hint)
					break
				}
				if err == nil || time.Now().After(deadline) {
					t.Fatalf("not busy: %v", err)
				}
			}
			networktest.WantError(t, networktest.NotRenewed(t, warm, l), false, c.says, c.hint)
			if c.end != nil {
				b.do(t, c.end...)
			}
			<-busy
			networktest.GoesOn(t, warm, l)
		})
	}
}

func TestDiskFull(t *testing.T) {
	server := script.StartRedis(t, "--save", "3600 1", "--dbfilename", "is-a-directory.rdb")
	b := backend{raw: rawClient(t, server.Addr)}
	dir := b.do(t, "CONFIG", "GET", "dir").([]any)[1].(string)
	must.Succeed(t, os.MkdirAll(filepath.Join(dir, "is-a-directory.rdb", "x"), 0o700))
	b.do(t, "SET", "x", "1")
	b.do(t, "BGSAVE")
	for !strings.Contains(b.do(t, "INFO", "persistence").(string), "rdb_last_bgsave_status:err") {
		time.Sleep(5 * time.Millisecond)
	}
	networktest.WantError(t, networktest.Refused(t, open(t, server.Addr)), false, "MISCONF", "its disk")
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

// The rights that the hint names are enough for all verbs.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	server := script.StartRedis(t, user("cron on >sesame ~leaderrun:* -@all "+rights)...)
	s := open(t, "cron:sesame@"+server.Addr)
	r := request("k")
	r.MinHold, r.Period, r.Tries = 20*time.Second, time.Hour, 3
	l := grant(t, s, r)
	renew(t, s, l)
	must.Succeed(t, s.Wait(bounded(t), "k", 20*time.Millisecond))
	b := backend{raw: rawClient(t, server.Addr)}
	heard := listening(t, b, s, "k")
	b.do(t, "DEL", s.leaseKey("k"))
	if _, err := s.Acquire(bounded(t), request("k")); !isSettling(err) {
		t.Errorf("another candidate: %v", err)
	}
	must.Succeed(t, endOf(t, heard))
	l = networktest.ComesBack(t, s, l)
	for range 2 {
		must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true, Exit: 1}))
	}
	must.Succeed(t, s.Pass(bounded(t), "k"))
	state := s.companion("state", "k")
	if got := b.do(t, "GET", s.leaseKey("k")); got != "cooldown:"+string(l.Holder) {
		t.Errorf("%v stands at the key", got)
	}
	if wake := s.companion("wake", "k"); b.do(t, "LLEN", wake) != int64(1) || b.do(t, "PTTL", wake).(int64) <= 0 {
		t.Errorf("%s was not written with an expiry", wake)
	}
	if status, err := s.Inspect(bounded(t), "k"); err != nil || status.Starts != 1 || len(status.Runs) == 0 || b.do(t, "PTTL", state).(int64) <= 0 {
		t.Errorf("%+v, %v", status, err)
	}
	if b.do(t, "EXISTS", prefix+":serving") != int64(1) {
		t.Error("no marker was written")
	}
	if log := b.do(t, "ACL", "LOG").([]any); len(log) > 0 {
		t.Errorf("denied: %v", log)
	}
}

// Another kind of server grants nothing and causes no panic, and no message shows the
// password.
func TestHostileAnswers(t *testing.T) {
	for _, answer := range []string{
		"", "\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x00\xff\xfe\r\n", "\x1b[31mred\r\n",
		"+OK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ":1\r\n", ":99999999999999999999\r\n", "$5\r\n1\r\n", "*0\r\n", "*1\r\n:1\r\n",
		"$9223372036854775807\r\nx", "*9223372036854775807\r\nx", "$-9223372036854775808\r\n", "%1\r\n*0\r\n+x\r\n", "=1\r\nx\r\n", ">1\r\n+x\r\n",
		"*6\r\n+1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",                   // the code is a string
		"*6\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n:1\r\n",                   // token 0
		"*6\r\n:1\r\n:1\r\n:-5\r\n:1\r\n:1\r\n:1\r\n",                  // a negative token
		"*6\r\n:1\r\n:9223372036854775807\r\n:1\r\n:1\r\n:1\r\n:1\r\n", // beyond Lua's integers
		"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",                         // one item short
		"*6\r\n:1\r\n:1\r\n:1\r\n$-1\r\n:1\r\n:1\r\n",
		"*6\r\n:1\r\n:1\r\n:1\r\n-ERR x\r\n:1\r\n:1\r\n",
		"*2\r\n:5\r\n:1\r\n",
		"*1\r\n:3\r\n", "*1\r\n:4\r\n",
		"*4\r\n:2\r\n:1\r\n:1\r\n+because\r\n",
		"*7\r\n:0\r\n:1\r\n:1\r\n+because\r\n+x\r\n:1\r\n:1\r\n",
		"*7\r\n:0\r\n:1\r\n:-1\r\n+held\r\n+x\r\n:1\r\n:1\r\n",
		"-\r\n", "-ERR\r\n", "-ERR unknown command 'HELLO', with args beginning with: '2' 'AUTH' 'default' 'sesame'\r\n",
		"-" + strings.Repeat("sesame ", 1000) + "\r\n", "-LEADERRUN \x1b[2J\r\n",
	} {
		t.Run(fmt.Sprintf("%.30q", answer), func(t *testing.T) {
			t.Parallel() // some end with their context only
			var end sync.WaitGroup
			defer end.Wait()
			for _, hello := range []string{greeting, answer} {
				s := open(t, ":sesame@"+networktest.Answering(t, hello, answer))
				end.Go(func() {
					for op, call := range calls(s) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						err := call(ctx)
						cancel()
						var failure *lease.StoreError
						if op == "acquire" && !errors.As(err, &failure) {
							t.Errorf("%s: error %#v, want a *StoreError", op, err)
						}
						networktest.ForPeople(t, fmt.Sprint(err), "")
					}
				})
			}
		})
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
