package redis

import (
	"strings"
	"testing"
)

func TestRenewScript(t *testing.T) {
	runScriptCases(t, []scriptCase{
		{name: "memory is not shortened", before: leads + "PEXPIRE STATE 900s", call: "renew", want: "1 now 0", after: "PTTL STATE = 900s"},
		{name: "renewed", before: leads, call: "renew", want: "1 now 0", after: "PTTL LEASE = 30s; PTTL STATE = 100s; HMGET STATE expires token holder = now+30s now-10s me; EXISTS SERVING = 0"},
		{name: "not shorter than the minimum hold", before: leads, call: "renew nb=now+80s", want: "1 now 0", after: "PTTL LEASE = 80s; HGET STATE expires = now+80s"},
		{name: "asked to hand over", before: leads + "HSET STATE hand_over now-10s", call: "renew", want: "1 now 1"},
		{name: "offered", before: leads, call: "renew offered=1", want: "1 now 0", after: "HGET STATE offered = now-10s"},
		{name: "no longer offered", before: leads + "HSET STATE offered now-10s", call: "renew", want: "1 now 0", after: "HGET STATE offered = _"},
		{name: "offered, and back", before: leads + "DEL LEASE", call: "renew offered=1", want: "2 now 0", after: "HGET STATE offered = now-10s"},
		{name: "an older holder was asked", before: leads + "HSET STATE hand_over now-20s", call: "renew", want: "1 now 0"},
		{
			name: "the state was lost", before: "SET LEASE me PX 20s", call: "renew", want: "1 now 0",
			after: "HMGET STATE token holder acquired min_hold_until tick ttl_ms expires meta = now-10s me now-10s now-10s now-20s 30000 now+30s {}; PTTL STATE = 100s",
		},
		{name: "a part of the state was lost", before: leads + "HSET STATE holder _", call: "renew", want: "1 now 0", after: "HMGET STATE token holder = now-10s me"},
		{name: "the state is an older one", before: leads + "HSET STATE token now-50s", call: "renew", want: "1 now 0", after: "HMGET STATE token holder = now-10s me"},
		{name: "a lease without an expiry gets one again", before: leads + "PERSIST LEASE", call: "renew", want: "1 now 0", after: "PTTL LEASE = 30s"},
		{
			name: "gone with its state: back", call: "renew nb=now+80s", want: "2 now 0",
			after: "GET LEASE = me; PTTL LEASE = 80s; HMGET STATE token holder acquired min_hold_until tick ttl_ms expires = now-10s me now-10s now+80s now-20s 30000 now+80s; GET SERVING = now SELF; PTTL SERVING = 2937600s",
		},
		{name: "gone: back", before: leads + "DEL LEASE; HSET STATE hand_over now-10s settle_since now settle_due now+10s", call: "renew", want: "2 now 1", after: "GET LEASE = me; HMGET STATE settle_since settle_due = _ _"},
		{name: "gone, an older counter: back", before: "HSET STATE token now-50s holder other", call: "renew", want: "2 now 0", after: "HMGET STATE token holder = now-10s me"},
		{name: "expired by this clock alone: back", before: leads + "DEL LEASE; HSET STATE expires now-60s", call: "renew", want: "2 now 0", after: "GET LEASE = me; PTTL LEASE = 30s; HMGET STATE token expires server = now-10s now+30s SELF"},
		{name: "a clock that has gone back does not lengthen the minimum hold", before: leads, call: "renew at=now+900s nb=now+940s", want: "1 now 0", after: "PTTL LEASE = 40s"},
		{name: "on another server than the one that granted", before: leads + "HSET STATE server abc", call: "renew", want: "1 now 0", after: "HGET STATE server = SELF"},
		{name: "gone, granted since", before: "HSET STATE token now-1s holder other", call: "renew", want: "0 now newer _", after: "EXISTS LEASE = 0"},
		{name: "gone, released", before: ended, call: "renew", want: "0 now released _", after: "EXISTS LEASE = 0"},
		{name: "another has it", before: rival, call: "renew", want: "0 now other other", after: "GET LEASE = other; PTTL LEASE = 20s"},
		{name: "another has it", before: "SET LEASE somebody", call: "renew", want: "0 now other somebody", after: "GET LEASE = somebody; PTTL LEASE = -1"},
		{name: "another has it, as an older state says that came back", before: "SET LEASE other PX 20s; HSET STATE token now-50s holder other server abc", call: "renew",
			want: "2 now 0", after: "GET LEASE = me; PTTL LEASE = 30s; HMGET STATE token holder server = now-10s me SELF"},
		{name: "another has it, and has renewed it since the state came back", before: "SET LEASE other PX 20s; HSET STATE token now-50s holder other server SELF", call: "renew",
			want: "0 now other other", after: "GET LEASE = other"},
		{name: "another has it, by a newer token on another server", before: "SET LEASE other PX 20s; HSET STATE token now-1s holder other server abc", call: "renew", want: "0 now other other"},
		{name: "somebody else's program has it, and an older state came back", before: "SET LEASE somebody; HSET STATE token now-50s holder other server abc", call: "renew", want: "0 now other somebody"},
		{name: "it cools down, and an older state came back", before: "SET LEASE cooldown:me PX 20s; HSET STATE token now-50s holder '' server abc", call: "renew", want: "0 now cooldown cooldown:me"},
		{name: "it cools down", before: "SET LEASE cooldown:me PX 20s", call: "renew", want: "0 now cooldown cooldown:me"},
		{name: "an older state has its release", before: "HSET STATE token now-50s holder _ released ~me~", call: "renew", want: "0 now released _", after: "EXISTS LEASE = 0"},
		{name: "a call has its answer", before: leads + "RPUSH CALL 1 1", call: "renew", want: "1 now 0", after: "EXISTS CALL = 0"},
		{name: "what another's program wrote is cut off", before: "SET LEASE " + strings.Repeat("x", 300), call: "renew", want: "0 now other " + strings.Repeat("x", 256)},
		{name: "it was revoked", before: "SET LEASE revoked:me PX 20s", call: "renew", want: "0 now revoked revoked:me", after: "PTTL LEASE = 20s"},
		{name: "an older token of the same holder", before: leads, call: "renew token=now-30s", want: "0 now newer me", after: "PTTL LEASE = 20s"},
	})
}

const mine = `{"token":now-10s,"tick":now-20s,"start":now-10s,"end":now,"exit":3,"host":"host-a","holder":"me"}`

func TestReleaseScript(t *testing.T) {
	runScriptCases(t, []scriptCase{
		{
			name: "released", before: leads, call: "release", want: "1 now",
			after: "GET LEASE = nil; HMGET STATE holder token hand_over = _ now-10s _; LLEN WAKE = 1; PTTL WAKE = 5s; PTTL STATE = 100s; HGET STATE released = ~me~;" +
				"LRANGE RUNS 0 -1 = " + mine + "; PTTL RUNS = 100s; HMGET STATE served_tick starts = nil nil",
		},
		{name: "the minimum hold goes on", before: leads, call: "release nb=now+40s", want: "1 now", after: "GET LEASE = cooldown:me; PTTL LEASE = 40s; LLEN WAKE = 1"},
		{name: "a clock that has gone back does not lengthen it", before: leads, call: "release at=now+900s nb=now+940s", want: "1 now", after: "GET LEASE = cooldown:me; PTTL LEASE = 40s"},
		{name: "repeated while it cools down", before: ended + "SET LEASE cooldown:me PX 40s", call: "release nb=now+40s", want: "1 now", after: "PTTL LEASE = 40s; EXISTS WAKE = 0"},
		{name: "nothing ran: nothing is held or filed", before: leads, call: "release nb=now+40s ran=0", want: "1 now", after: "GET LEASE = nil; EXISTS RUNS = 0; LLEN WAKE = 1"},
		{name: "revoked: the key is free at once", before: "SET LEASE revoked:me PX 20s; HSET STATE token now holder me", call: "release nb=now+40s", want: "1 now", after: "GET LEASE = nil; HMGET STATE holder token = _ now"},
		{name: "the key was gone already", before: leads + "DEL LEASE", call: "release", want: "0 now gone _", after: "HGET STATE holder = _; HGET STATE released = ~me~; LLEN WAKE = 1; LRANGE RUNS 0 -1 = " + mine},
		{name: "everything was gone already", call: "release", want: "0 now gone _", after: "EXISTS WAKE = 0; HGET STATE released = ~me~; LRANGE RUNS 0 -1 = " + mine},
		{name: "the state was lost", before: "SET LEASE me PX 20s", call: "release", want: "1 now", after: "GET LEASE = nil; HGET STATE token = now-10s"},
		{name: "another has it", before: rival, call: "release", want: "0 now other other", after: "GET LEASE = other; PTTL LEASE = 20s; HGET STATE holder = other; HGET STATE released = ~me~; EXISTS WAKE = 0; LRANGE RUNS 0 -1 = " + mine},
		{name: "another has it", before: "SET LEASE somebody", call: "release", want: "0 now other somebody", after: "GET LEASE = somebody; PTTL LEASE = -1"},
		{name: "an older token of the same holder", before: leads, call: "release token=now-30s", want: "0 now other me", after: "GET LEASE = me; HGET STATE holder = me"},
		{name: "without a period no tick is written", before: leads, call: "release success=1", want: "1 now", after: "HGET STATE served_tick = nil"},
		{name: "known to be released", before: "HSET STATE released ~me~", call: "release", want: "0 now gone _", after: "HGET STATE released = ~me~"},
		{name: "what another's program wrote is cut off", before: "SET LEASE " + strings.Repeat("x", 300), call: "release", want: "0 now other " + strings.Repeat("x", 256)},
		{name: "the list of runs is another's", before: leads + "SET RUNS x", call: "release", want: "1 now", after: "LRANGE RUNS 0 -1 = " + mine},
	})
}

// A server without memory takes no new value, but the key ends in time.
func TestReleaseWithoutMemory(t *testing.T) {
	b := realBackend(t)
	now := b.now(t)
	for _, line := range lines(leads) {
		b.do(t, expand(t, line, now)...)
	}
	b.do(t, "CONFIG", "SET", "maxmemory", "1")
	b.call(t, "release nb=now+50s", now)
	if left := render(b.do(t, expand(t, "PTTL LEASE", now)...), now); left != "50s" {
		t.Errorf("the lease goes on for %s", left)
	}
}

// A start after which nothing ran is taken back, once.
func TestReleaseTakesAStartBack(t *testing.T) {
	const call = "release round=50s reach=100s ran=0"
	const two = "HSET STATE series_tick now-20s starts 2;"
	runScriptCases(t, []scriptCase{
		{name: "taken back", before: leads + two, call: call, want: "1 now", after: "HMGET STATE series_tick starts = now-20s 1"},
		{name: "taken back after the expiry", before: leads + two + "DEL LEASE", call: call, want: "0 now gone _", after: "HGET STATE starts = 1"},
		{name: "once", before: ended + two, call: call, want: "0 now gone _", after: "HGET STATE starts = 2"},
		{name: "not when it ran", before: leads + two, call: call + " ran=1", want: "1 now", after: "HGET STATE starts = 2"},
		{name: "not below none", before: leads + "HSET STATE series_tick now-20s starts 0", call: call, want: "1 now", after: "HGET STATE starts = 0"},
		{name: "not at half a period: another round", before: leads + "HSET STATE series_tick now-70s starts 2", call: call, want: "1 now", after: "HGET STATE starts = 2"},
		{name: "not of an earlier round", before: leads + "HSET STATE series_tick now-90s starts 2", call: call, want: "1 now", after: "HGET STATE starts = 2"},
		{name: "not another's", before: rival + two, call: call, want: "0 now other other", after: "HGET STATE starts = 2"},
		{name: "not without a period", before: leads + two, call: call + " round=0", want: "1 now", after: "HGET STATE starts = 2"},
	})
}

// A success serves its tick.
func TestReleaseServesTheTick(t *testing.T) {
	const call = "release round=50s reach=100s success=1 exit=0"
	runScriptCases(t, []scriptCase{
		{name: "the first", before: leads, call: call, want: "1 now", after: "HGET STATE served_tick = now-20s"},
		{name: "a later one", before: leads + "HSET STATE served_tick now-50s", call: call, want: "1 now", after: "HGET STATE served_tick = now-20s"},
		{name: "never back", before: leads + "HSET STATE served_tick now", call: call, want: "1 now", after: "HGET STATE served_tick = now"},
		{name: "a period ahead is no garbage", before: leads + "HSET STATE served_tick now+90s", call: call, want: "1 now", after: "HGET STATE served_tick = now+90s"},
		{name: "nor is one as far ahead as it may be", before: leads + "HSET STATE served_tick now+100s", call: call, want: "1 now", after: "HGET STATE served_tick = now+100s"},
		{name: "the far future is", before: leads + "HSET STATE served_tick now+120s", call: call, want: "1 now", after: "HGET STATE served_tick = now-20s"},
		{name: "a failure serves nothing", before: leads, call: call + " success=0", want: "1 now", after: "HGET STATE served_tick = nil"},
		{name: "also after the loss", before: rival, call: call, want: "0 now other other", after: "HGET STATE served_tick = now-20s"},
	})
}

// The record of a run replaces "vanished", and no other record.
func TestReleaseRecordsOnce(t *testing.T) {
	const older = `{"token":now-50s,"rest":1}`
	const newer = `{"token":now,"rest":1}`
	const vanished = `{"token":now-10s,"exit":0,"vanished":true,"rest":1}`
	var twenty []string
	for range 20 {
		twenty = append(twenty, newer)
	}
	full := strings.Join(twenty, " ")
	runScriptCases(t, []scriptCase{
		{name: "among others, newest first", before: leads + "RPUSH RUNS " + newer + " " + older, call: "release", want: "1 now", after: "LRANGE RUNS 0 -1 = " + newer + " " + mine + " " + older},
		{name: "instead of vanished", before: rival + "RPUSH RUNS " + newer + " " + vanished + " " + older, call: "release", want: "0 now other other", after: "LRANGE RUNS 0 -1 = " + newer + " " + mine + " " + older},
		{name: "never twice", before: ended + `RPUSH RUNS {"token":now-10s,"exit":0,"rest":1}`, call: "release", want: "0 now gone _", after: `LRANGE RUNS 0 -1 = {"token":now-10s,"exit":0,"rest":1}`},
		{name: "garbage goes", before: leads + "RPUSH RUNS x {} " + older, call: "release", want: "1 now", after: "LRANGE RUNS 0 -1 = " + mine + " " + older},
		{name: "twenty at the most", before: leads + "RPUSH RUNS" + strings.Repeat(" "+older, 20), call: "release", want: "1 now", after: "LLEN RUNS = 20; LINDEX RUNS 0 = " + mine},
		{name: "none that is older than twenty", before: leads + "RPUSH RUNS " + full, call: "release", want: "1 now", after: "LLEN RUNS = 20; LINDEX RUNS 19 = " + newer},
	})
}

// A candidate that leaves passes its wake-up on.
func TestPassScript(t *testing.T) {
	runScriptCases(t, []scriptCase{
		{name: "free", call: "pass", want: "1 now", after: "LLEN WAKE = 1; PTTL WAKE = 5s; EXISTS LEASE STATE RUNS SERVING CALL = 0"},
		{name: "held", before: rival, call: "pass", want: "1 now", after: "LLEN WAKE = 1; GET LEASE = other"},
		{name: "one element at the most", before: "RPUSH WAKE 1 2 3", call: "pass", want: "1 now", after: "LLEN WAKE = 1; PTTL WAKE = 5s"},
		{name: "a wrong type is replaced", before: "SET WAKE x", call: "pass", want: "1 now", after: "LLEN WAKE = 1"},
	})
}
