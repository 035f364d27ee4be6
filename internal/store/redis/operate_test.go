package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// Whatever is written beside the lease, the status shows the rest, and its size is bounded.
func TestHostileState(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("\xff\x00\x1b[2J", 200_000)
	run := func(token any, holder string) string {
		return fmt.Sprintf(`{"token":%v,"tick":1,"start":2,"end":3,"exit":4,"host":"host-a","holder":%q}`, token, holder)
	}
	onBoth(t, func(t *testing.T, b backend) {
		s := &Store{prefix: prefix}
		state, runs := s.companion("state", "k"), s.companion("runs", "k")
		for name, spoil := range map[string][][]any{
			"garbage": {{"HSET", state, "token", "x", "acquired", "-1", "min_hold_until", "1e9", "tick", huge, "ttl_ms", "0x10", "served_tick", "99999999999999999", "starts", "9", "hand_over", huge, "released", huge, "meta", huge}},
			"numbers": {{"HSET", state, "acquired", "9999999999999999", "min_hold_until", "9999999999999999", "tick", "9999999999999999", "ttl_ms", "9999999999999999", "served_tick", "9999999999999999", "starts", "9999999999999999"}},
			"an id":   {{"HSET", state, "holder", "host-a/1/" + huge}},
			"runs": {
				{"RPUSH", runs, huge, "", "{", "null", "[]", `"x"`, `{"token":"5"}`, run(0, ids["me"]), run(-1, ids["me"]), run(1e300, ids["me"]), run(5, huge), run(5, "host-a/1/x"),
					run(6, ids["other"]), strings.Repeat("[", 1_000_000), run(7, ids["me"])},
			},
			"runs of another type":  {{"SET", runs, huge}},
			"lists of another type": {{"SET", s.companion("wake", "k"), "x"}, {"SET", s.companion("call", "k"), "x"}},
		} {
			t.Run(name, func(t *testing.T) {
				b.do(t, "FLUSHALL")
				b.do(t, "SET", s.leaseKey("k"), ids["me"], "PX", 20_000)
				b.do(t, "HSET", state, "token", 8, "holder", ids["me"])
				for _, command := range spoil {
					b.do(t, command...)
				}
				s := open(t, b.addr)
				status, err := s.Inspect(bounded(t), "k")
				if err != nil || status.Why != lease.HeldLeader || status.Holder != lease.Holder(ids["me"]) || status.Remaining == 0 || len(status.Meta) > lease.MaxMeta {
					t.Errorf("status %.500s, %v", fmt.Sprintf("%+v", status), err)
				}
				if name == "runs" && (len(status.Runs) != 1 || status.Runs[0].Token != 7) {
					t.Errorf("runs %+v", status.Runs)
				}
				if _, err := s.HandOver(bounded(t), "k"); err != nil {
					t.Error(err)
				}
				for _, now := range []bool{false, true} {
					if _, err := s.Revoke(bounded(t), "k", now); err != nil {
						t.Error(err)
					}
				}
				if after, err := s.Inspect(bounded(t), "k"); err != nil || after.Why != "" || after.Token <= status.Token {
					t.Errorf("revoked: %v, token %d after %d, %q", err, after.Token, status.Token, after.Why)
				}
			})
		}
	})
}

func TestOperateScripts(t *testing.T) {
	long := strings.Repeat("x", 5000)
	const vanished = `{"token":now-10s,"tick":now-20s,"start":now-10s,"end":now,"exit":0,"vanished":true,"host":"host-a","holder":"me"}`
	runScriptCases(t, []scriptCase{
		{name: "status", before: leads, call: "status", want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 0 _  0 0 _ _ 0 _ 0", after: "PTTL LEASE = 20s; EXISTS WAKE CALL RUNS SERVING = 0"},
		{name: "status of nothing", call: "status", want: "1 now _ _ 0 _ 0 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "EXISTS LEASE STATE WAKE CALL RUNS SERVING = 0"},
		{name: "hand over", before: leads, call: "handover", want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 1 _  0 0 _ _ 0 _ 0", after: "HGET STATE hand_over = now-10s; LLEN CALL = 16; PTTL CALL = 5s; EXISTS WAKE = 0"},
		{name: "hand over: the state was lost", before: "SET LEASE me PX 20s", call: "handover", want: "1 now held me 20s me 0 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "EXISTS STATE CALL = 0"},
		{name: "hand over: gone", before: leads + "DEL LEASE", call: "handover", want: "1 now _ _ 0 me now-10s 30s now-10s now-10s now-20s 0 0 0 _  0 0 _ _ 0 _ 0", after: "HGET STATE hand_over = nil; EXISTS CALL = 0"},
		{
			name: "revoke", before: leads, call: "revoke", want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 0 _  0 0 _ _ 0 _ 0",
			after: "GET LEASE = revoked:me; PTTL LEASE = 20s; PTTL STATE = 100s; HMGET STATE token holder released = now _ ~me~; PTTL RUNS = 100s; LLEN CALL = 16; EXISTS WAKE = 0; LRANGE RUNS 0 -1 = " + vanished,
		},
		{name: "revoke: what is remembered for longer stays", before: leads + "PEXPIRE STATE 1h", call: "revoke", want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 0 _  0 0 _ _ 0 _ 0", after: "PTTL STATE = 3600s; PTTL RUNS = 3600s"},
		{name: "revoke: a lease without an expiry gets one", before: leads + "PERSIST LEASE", call: "revoke", want: "1 now held me 0 me now-10s 30s now-10s now-10s now-20s 0 0 0 _  0 0 _ _ 0 _ 0", after: "PTTL LEASE = 30s"},
		{name: "revoke: a lease without an expiry and a state gets one", before: "SET LEASE other", call: "revoke", want: "1 now held other 0 other 0 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "PTTL LEASE = 30s"},
		{name: "revoke: the state says little", before: "SET LEASE me PX 20s; HSET STATE token now-10s holder me", call: "revoke", want: "1 now held me 20s me now-10s 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0",
			after: `LRANGE RUNS 0 -1 = {"token":now-10s,"tick":0,"start":0,"end":now,"exit":0,"vanished":true,"host":"host-a","holder":"me"}`},
		{name: "revoke: once more calls once more", before: "SET LEASE revoked:me PX 20s", call: "revoke", want: "1 now revoked revoked:me 20s me 0 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "LLEN CALL = 16; GET LEASE = revoked:me"},
		{name: "revoke: nobody leads", call: "revoke", want: "1 now _ _ 0 _ 0 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "EXISTS STATE CALL WAKE = 0"},
		{name: "revoke: somebody set it by hand", before: "SET LEASE other PX 20s", call: "revoke", want: "1 now held other 20s other 0 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "GET LEASE = revoked:other; HMGET STATE token holder released = now _ ~other~; EXISTS RUNS = 0"},
		{name: "revoke: the token is the last one", before: leads + "HSET STATE token 9007199254740000", call: "revoke", want: "LEADERRUN leaderrun:state:{leaderrun:leader:k}: token is out of range", after: "GET LEASE = me"},
		{name: "revoke at once", before: leads, call: "revoke now=1", want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 0 _  0 0 _ _ 0 _ 0", after: "EXISTS LEASE = 0; LLEN CALL = 16; LLEN WAKE = 1; LRANGE RUNS 0 -1 = " + vanished},
		{name: "pause", before: leads, call: "pause", want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 0 _  now now+3600s ann _ 0 _ 0", after: "HMGET STATE pause_since pause_until pause_by token holder = now now+3600s ann now-10s me; PTTL STATE = 3600s; PTTL LEASE = 20s; EXISTS WAKE CALL = 0"},
		{name: "pause: what is remembered for longer stays", before: ended + "PEXPIRE STATE 2h", call: "pause", want: "1 now _ _ 0 _ now-10s 0 0 0 0 0 0 0 _  now now+3600s ann _ 0 _ 0", after: "PTTL STATE = 7200s"},
		{name: "pause: the state must outlast it", call: "pause", want: "1 now _ _ 0 _ 0 0 0 0 0 0 0 0 _  now now+3600s ann _ 0 _ 0", after: "PTTL STATE = 3600s"},
		{name: "resume", before: "HSET STATE pause_since now-10s pause_until now+10s pause_by ann", call: "resume", want: "1 now _ _ 0 _ 0 0 0 0 0 0 0 0 _  now-10s now+10s ann _ 0 _ 0", after: "HMGET STATE pause_since pause_until pause_by = _ _ _; LLEN WAKE = 1; EXISTS CALL = 0"},
		{name: "resume: not paused", before: ended, call: "resume", want: "1 now _ _ 0 _ now-10s 0 0 0 0 0 0 0 _  0 0 _ _ 0 _ 0", after: "EXISTS WAKE CALL = 0"},
		{name: "half a pause is none", before: known + "HSET STATE pause_until now+20s", call: "acquire", want: "1 now now 0 now now"},
		{name: "forget", before: ended + "PEXPIRE STATE 1h; RPUSH RUNS x", call: "forget", want: "1 now _ _ 0 _ now-10s 0 0 0 0 0 0 0 _ x 0 0 _ _ 0 _ 0",
			after: "HMGET STATE token acquired ttl_ms expires = now-10s _ _ _; PTTL STATE = 100s; EXISTS RUNS = 0"},
		{name: "status: what others wrote is cut off", before: "SET LEASE " + long + "; RPUSH RUNS " + strings.Repeat(long+" ", 22), call: "status",
			want: "1 now foreign " + long[:256] + " 0 _ 0 0 0 0 0 0 0 0 _ " + strings.Repeat(long[:1024]+" ", 20) + "0 0 _ _ 0 _ 0"},
		{name: "status: texts are cut off", before: leads + "HSET STATE meta " + long + " pause_since now-10s pause_until now+10s pause_by " + long + " pause_reason " + long, call: "status",
			want: "1 now held me 20s me now-10s 30s now-10s now-10s now-20s 0 0 0 " + long[:4096] + "  now-10s now+10s " + long[:1000] + " " + long[:1000] + " 0 _ 0"},
		{name: "paused: before it settles", before: "HSET STATE pause_since now-10s pause_until now+10s pause_by ann", call: "acquire", want: "5 now 10s now-10s now+10s ann _", after: "EXISTS LEASE CALL = 0; HGET STATE settle_since = nil"},
		{name: "paused: the clock has gone back", before: "HSET STATE pause_since now+100s pause_until now+120s", call: "acquire", want: "5 now 20s now+100s now+120s _ _"},
		{name: "paused for ever is not paused", before: known + "HSET STATE pause_since 1 pause_until 9007199254740000", call: "acquire", want: "1 now now 0 now now"},
		{name: "paused: the holder goes on", before: leads + "HSET STATE pause_since now-10s pause_until now+3600s", call: "renew", want: "1 now 0"},
		{name: "paused: somebody holds", before: rival + "HSET STATE pause_since now-10s pause_until now+3600s", call: "acquire", want: "0 now 20s held other now-10s 40s 10s now+20s"},
	})
}

// Only keys of the prefix are listed, whatever characters the prefix has.
func TestKeysOfAPrefix(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend) {
		for _, prefix := range []string{"leaderrun", "a:b", "x*", "[x]", `x\`, "x?"} {
			b.do(t, "FLUSHALL")
			s := openWith(t, Options{URL: "redis://" + b.addr, Prefix: prefix})
			if keys, err := s.Keys(bounded(t)); err != nil || keys == nil || len(keys) > 0 {
				t.Errorf("%s: %q, %v of nothing", prefix, keys, err)
			}
			b.do(t, "SET", s.leaseKey("b:c/d"), "anything")
			b.do(t, "HSET", s.companion("state", "a"), "token", 1)
			b.do(t, "HSET", s.companion("state", "b:c/d"), "token", 1)
			for _, other := range []string{
				s.leaseKey(""), s.leaseKey("a b"), s.leaseKey("{a}"), s.leaseKey("x\x1b[2J"), s.leaseKey(strings.Repeat("x", 201)), s.companion("runs", "r"),
				prefix + "x:leader:k", "x" + prefix + ":leader:k", "xx:leader:k", "xy:leader:k", prefix + ":serving", prefix + ":state:{" + s.leaseKey("open"), prefix + ":state:k",
			} {
				b.do(t, "SET", other, "x")
			}
			if keys, err := s.Keys(bounded(t)); err != nil || !slices.Equal(keys, []string{"a", "b:c/d"}) {
				t.Errorf("%s: %q, %v", prefix, keys, err)
			}
		}
	})
}

// There are more keys than one page of the scan holds.
func TestManyKeys(t *testing.T) {
	b := realBackend(t)
	b.do(t, "EVAL", "for i = 1, 5000 do redis.call('SET', 'x' .. i, 1) redis.call('SET', 'leaderrun:leader:' .. i, 1) end", 0)
	if keys, err := open(t, b.addr).Keys(bounded(t)); err != nil || len(keys) != 5000 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// The least rights are enough for everything but the list, whose error says what is missing.
func TestOperatorsRights(t *testing.T) {
	const acl = "cron on >sesame ~leaderrun:* -@all "
	server := script.StartRedis(t, slices.Concat(user(acl+rights), user(strings.Replace(acl, "cron", "op", 1)+rights+" "+listing))...)
	s := open(t, "cron:sesame@"+server.Addr)
	l := grant(t, s, request("k"))
	for _, verb := range []func() (lease.Status, error){
		func() (lease.Status, error) { return s.Inspect(bounded(t), "k") },
		func() (lease.Status, error) { return s.HandOver(bounded(t), "k") },
		func() (lease.Status, error) { return s.Pause(bounded(t), "k", time.Minute, "", "") },
		func() (lease.Status, error) { return s.Resume(bounded(t), "k") },
		func() (lease.Status, error) { return s.Forget(bounded(t), "k", true) },
		func() (lease.Status, error) { return s.Revoke(bounded(t), "k", false) },
		func() (lease.Status, error) { return s.Revoke(bounded(t), "k", true) },
	} {
		if status, err := verb(); err != nil || status.Holder != l.Holder {
			t.Errorf("%+v, %v", status, err)
		}
	}
	_, err := s.Keys(bounded(t))
	networktest.WantError(t, err, true, "list: redis at "+server.Addr+": NOPERM", "+scan")
	if keys, err := open(t, "op:sesame@"+server.Addr).Keys(bounded(t)); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("%q, %v", keys, err)
	}
}

// The keys of all nodes are listed, or none if a node does not answer.
func keysOfACluster(t *testing.T, c *script.Cluster) {
	s := openCluster(t, c.Addrs())
	nodes, want := map[*script.RedisServer]bool{}, []string{}
	for i := range 9 {
		key := fmt.Sprint("listed", i)
		node, _ := c.Of(t, prefix+":leader:"+key)
		nodes[node], want = true, append(want, key)
		grant(t, s, request(key))
	}
	if len(nodes) != 3 {
		t.Errorf("the keys are on %d nodes only", len(nodes))
	}
	for _, node := range c.Primaries {
		keys, err := openCluster(t, node.Addr).Keys(bounded(t))
		if keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, "listed") }); err != nil || !slices.Equal(keys, want) {
			t.Errorf("%q, %v", keys, err)
		}
	}
	_, err := openCluster(t, "cron:sesame@"+c.Primaries[0].Addr).Keys(bounded(t))
	networktest.WantError(t, err, true, "list: redis at ", "+scan +cluster|slots")
}
