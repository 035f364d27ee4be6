package redis

import (
	"fmt"
	"strings"
	"testing"
)

func TestAcquireScript(t *testing.T) {
	runScriptCases(t, []scriptCase{
		{
			name: "granted", before: known, call: "acquire", want: "1 now now 0 now now",
			after: "GET LEASE = me; PTTL LEASE = 30s; PTTL STATE = 100s;" +
				"HMGET STATE token holder acquired min_hold_until tick ttl_ms expires hand_over settle_since settle_due meta = now me now now 0 30000 now+30s _ _ _ {};" +
				"HMGET STATE series_tick starts served_tick = nil nil nil",
		},
		{
			name: "granted with everything asked for", before: known,
			call: "acquire hold=50s tick=now-20s period=1h round=1800s reach=1h tries=2 seen=0 keep=200s", want: "1 now now now-20s now now+50s",
			after: "PTTL LEASE = 50s; PTTL STATE = 200s; HMGET STATE min_hold_until tick expires series_tick starts = now+50s now-20s now+50s now-20s 1",
		},
		{
			name: "the token grows where the clock stands behind it", before: "HSET STATE token now+50s holder _",
			call: "acquire", want: "1 now now+50s 0 now now",
		},
		{
			name: "the token grows over one that was seen", before: "HSET STATE token now+50s holder _",
			call: "acquire seen=now+80s seenttl=0 settle=0", want: "1 now now+80s 0 now now",
		},
		{
			name: "a token beyond Lua's integers is refused", before: "HSET STATE token 9007199254740000 holder _",
			call: "acquire", want: "LEADERRUN leaderrun:state:{leaderrun:leader:k}: token is out of range", after: "GET LEASE = nil",
		},
		{
			name: "asked again: the same grant, a new ttl", before: leads,
			call: "acquire tick=now", want: "1 now now-10s now-20s now-10s now-10s",
			after: "PTTL LEASE = 30s; HGET STATE expires = now+30s; HGET STATE starts = nil",
		},
		{
			name: "asked again: a minimum hold of garbage does not hold", before: leads + "HSET STATE min_hold_until now+900s",
			call: "acquire hold=40s", want: "1 now now-10s now-20s now-10s now+40s", after: "PTTL LEASE = 40s",
		},
		{
			name: "released before", before: ended + "HSET STATE released ~third~~me~~other~",
			call: "acquire", want: "4 now", after: "GET LEASE = nil",
		},
		{
			name: "held, and it ends soon: the holder is called", before: rival, call: "acquire settle=30s", want: "0 now 20s held other now-10s 40s 10s now+20s",
			after: "LLEN CALL = 16; HMGET STATE settle_since settle_due = now now+30s",
		},
		{
			name: "held", before: rival, call: "acquire settle=5s", want: "0 now 20s held other now-10s 40s 10s now+20s",
			after: "PTTL LEASE = 20s; EXISTS WAKE CALL RUNS SERVING = 0",
		},
		{
			name: "held, and offered to a standby", before: rival + "HSET STATE offered now-10s", call: "acquire settle=5s waits=1", want: "0 now 20s held other now-10s 40s 10s now+20s",
			after: "HGET STATE hand_over = now-10s",
		},
		{
			name: "held, and offered, but not to one that does not wait", before: rival + "HSET STATE offered now-10s", call: "acquire settle=5s", want: "0 now 20s held other now-10s 40s 10s now+20s",
			after: "HEXISTS STATE hand_over = 0",
		},
		{
			name: "held, and an older holder's offer", before: rival + "HSET STATE offered now-20s", call: "acquire settle=5s waits=1", want: "0 now 20s held other now-10s 40s 10s now+20s",
			after: "HEXISTS STATE hand_over = 0",
		},
		{
			name: "held, offered and paused", before: rival + "HSET STATE offered now-10s pause_since now-10s pause_until now+3600s", call: "acquire settle=5s waits=1",
			want: "0 now 20s held other now-10s 40s 10s now+20s", after: "HEXISTS STATE hand_over = 0",
		},
		{name: "held: the state was lost", before: "SET LEASE other PX 20s", call: "acquire", want: "0 now 20s held other 0 30s 0 0"},
		{name: "cooldown", before: ended + "SET LEASE cooldown:other PX 20s", call: "acquire", want: "0 now 20s cooldown cooldown:other now-10s 40s 0 now+20s"},
		{name: "revoked", before: ended + "SET LEASE revoked:other PX 20s", call: "acquire", want: "0 now 20s revoked revoked:other now-10s 40s 0 now+20s"},
		{name: "its own cooldown", before: "SET LEASE cooldown:me PX 20s", call: "acquire", want: "0 now 20s cooldown cooldown:me 0 30s 0 0"},
		{name: "its minimum hold is not known", before: "SET LEASE me PX 20s; HSET STATE token now-10s holder me acquired now-10s", call: "acquire tick=now-20s", want: "1 now now-10s now-20s now-10s 0"},
		{name: "the tick was chosen for times from now on", before: known, call: "acquire from=now until=now+50s", want: "1 now now 0 now now"},
		{name: "a token of 17 digits counts as none", before: known + "HSET STATE token 10000000000000000", call: "acquire", want: "1 now now 0 now now"},
		{name: "foreign", before: "SET LEASE somebody PX 20s", call: "acquire", want: "0 now 20s foreign somebody 0 30s 0 0"},
		{
			name: "the lease is a list", before: "RPUSH LEASE x", call: "acquire",
			want: "LEADERRUN leaderrun:leader:k: WRONGTYPE Operation against a key holding the wrong kind of value", after: "EXISTS STATE = 0",
		},
		{
			name: "the state is a string", before: "SET STATE x", call: "acquire",
			want: "LEADERRUN leaderrun:state:{leaderrun:leader:k}: WRONGTYPE Operation against a key holding the wrong kind of value", after: "EXISTS LEASE = 0",
		},
		{
			name: "a state of garbage counts as none", before: "HSET STATE token x holder y acquired -1 min_hold_until 1e9 tick z ttl_ms 99999999999999999 expires 0x1 settle_since - settle_due - served_tick ~ series_tick ! starts ?",
			call: "acquire period=1h round=1800s reach=1h tries=1 settle=0", want: "1 now now now now now", after: "HMGET STATE token holder series_tick starts = now me now 1; EXISTS RUNS = 0",
		},
		{
			name: "wake-ups of the past end with a grant", before: known + "RPUSH WAKE 1; RPUSH CALL 1",
			call: "acquire", want: "1 now now 0 now now", after: "EXISTS WAKE CALL = 0",
		},
		{
			name: "wrong types at the lists and the marker do no harm", before: "SET WAKE x; SET CALL x; SET RUNS x; RPUSH SERVING x;" + "HSET STATE token now-90s holder other ttl_ms 30s expires now-60s",
			call: "acquire settle=0", want: "1 now now 0 now now", after: "LLEN RUNS = 1; EXISTS WAKE CALL = 0; TYPE SERVING = string",
		},
	})
}

// A lease without an expiry gets one only if leaderrun wrote it.
func TestAcquireHealsItsOwnOnly(t *testing.T) {
	cases := []scriptCase{
		{name: "held", before: "HSET STATE token now-10s holder other ttl_ms 40s; SET LEASE other", call: "acquire", want: "0 now 40s held other now-10s 40s 0 now+40s", after: "PTTL LEASE = 40s; GET LEASE = other"},
		{name: "the clock has gone back", before: "HSET STATE token now-10s holder other acquired now+900s min_hold_until now+900s ttl_ms 40s expires now+940s; SET LEASE other PX 940s", call: "acquire", want: "0 now 40s held other now-10s 40s 0 now+40s", after: "PTTL LEASE = 40s; HGET STATE expires = now+40s"},
		{name: "and a minimum hold goes on for no longer than it ever lasted", before: "HSET STATE token now-10s holder other acquired now+900s min_hold_until now+960s ttl_ms 40s expires now+960s; SET LEASE other PX 960s", call: "acquire", want: "0 now 60s held other now-10s 40s 0 now+60s", after: "PTTL LEASE = 60s"},
		{name: "held, no state", before: "SET LEASE third", call: "acquire", want: "0 now 30s held third 0 30s 0 0", after: "PTTL LEASE = 30s; EXISTS STATE = 0"},
		{name: "cooldown", before: "SET LEASE cooldown:other", call: "acquire", want: "0 now 30s cooldown cooldown:other 0 30s 0 0", after: "PTTL LEASE = 30s; EXISTS STATE = 0"},
		{name: "revoked", before: "SET LEASE revoked:other", call: "acquire", want: "0 now 30s revoked revoked:other 0 30s 0 0", after: "PTTL LEASE = 30s; EXISTS STATE = 0"},
	}
	hex := ids["other"][len("host-b/2/"):]
	longest := strings.Repeat("h", 63) + "/1234567890/" + hex
	cases = append(cases, scriptCase{name: "the longest id", before: "SET LEASE " + longest, call: "acquire", want: "0 now 30s held " + longest + " 0 30s 0 0", after: "PTTL LEASE = 30s"})
	for _, foreign := range []string{
		"somebody", "cooldown:", "cooldown:somebody", "cooldown:revoked:other", "host/1/" + hex[1:], "host/1/" + hex + "b",
		"host/1/B" + hex[1:], "host/x/" + hex, "host/12345678901/" + hex, "host/" + hex, "ho:st/1/" + hex, "/1/" + hex,
		strings.Repeat("h", 64) + "/1/" + hex, "other/", "x/other",
	} {
		cases = append(cases, scriptCase{
			name: "foreign " + foreign, before: "SET LEASE " + foreign, call: "acquire",
			want: "0 now 30s foreign " + foreign + " 0 30s 0 0", after: "PTTL LEASE = -1; GET LEASE = " + foreign,
		})
	}
	runScriptCases(t, cases)
}

// The starts of a tick are counted.
func TestAcquireCountsStarts(t *testing.T) {
	const call = "acquire round=50s reach=100s tries=2 tick=now"
	runScriptCases(t, []scriptCase{
		{name: "the first", before: known, call: call, want: "1 now now now now now", after: "HMGET STATE series_tick starts = now 1"},
		{name: "the second", before: ended + "HSET STATE series_tick now-20s starts 1", call: call, want: "1 now now now now now", after: "HMGET STATE series_tick starts = now-20s 2"},
		{name: "none is known yet", before: ended + "HSET STATE series_tick now-20s", call: call, want: "1 now now now now now", after: "HMGET STATE series_tick starts = now-20s 1"},
		{name: "no third", before: ended + "HSET STATE series_tick now-20s starts 2", call: call, want: "3 now now-20s given-up", after: "GET LEASE = nil; LLEN WAKE = 1; HGET STATE starts = 2"},
		{name: "an older tick is no new round", before: ended + "HSET STATE series_tick now+60s starts 2", call: call, want: "3 now now+60s given-up"},
		{name: "a tick is not run after a newer one", before: ended + "HSET STATE series_tick now+50s starts 1", call: call, want: "3 now now+50s given-up", after: "GET LEASE = nil; LLEN WAKE = 1; HMGET STATE series_tick starts = now+50s 1"},
		{name: "a little older is the same round", before: ended + "HSET STATE series_tick now+40s starts 1", call: call, want: "1 now now now now now", after: "HMGET STATE series_tick starts = now+40s 2"},
		{name: "half a period later: a new round", before: ended + "HSET STATE series_tick now-50s starts 2", call: call, want: "1 now now now now now", after: "HMGET STATE series_tick starts = now 1"},
		{name: "just before it: the old one", before: ended + "HSET STATE series_tick now-40s starts 2", call: call, want: "3 now now-40s given-up"},
		{name: "an anchor of the far future is garbage", before: ended + "HSET STATE series_tick now+900s starts 9", call: call, want: "1 now now now now now", after: "HMGET STATE series_tick starts = now 1"},
		{name: "while the last one runs it is held", before: rival + "HSET STATE series_tick now-20s starts 2", call: call, want: "0 now 20s held other now-10s 40s 10s now+20s"},
		{name: "while the last one cools down it is held", before: ended + "SET LEASE cooldown:other PX 20s; HSET STATE series_tick now-20s starts 2", call: call, want: "0 now 20s cooldown cooldown:other now-10s 40s 0 now+20s"},
		{name: "while the last one may come back it settles", before: "HSET STATE token now-10s holder other ttl_ms 40s expires now+20s series_tick now-20s starts 2", call: call, want: "2 now 20s vanished"},
		{name: "any number of tries", before: ended + "HSET STATE series_tick now-20s starts 7", call: call + " tries=0", want: "1 now now now now now", after: "HGET STATE starts = 8"},
		{name: "without a period nothing is read or written", before: ended + "HSET STATE series_tick now-20s starts 7 served_tick now", call: "acquire", want: "1 now now 0 now now", after: "HMGET STATE series_tick starts served_tick = now-20s 7 now"},
		{name: "asked again is no start", before: leads + "HSET STATE series_tick now-20s starts 2", call: call, want: "1 now now-10s now-20s now-10s now-10s", after: "HGET STATE starts = 2"},
	})
}

func TestAcquireTicksDone(t *testing.T) {
	const call = "acquire round=50s reach=100s tick=now"
	runScriptCases(t, []scriptCase{
		{name: "served", before: ended + "HSET STATE served_tick now-20s", call: call, want: "3 now now-20s served", after: "LLEN WAKE = 1; PTTL WAKE = 5s; GET LEASE = nil"},
		{name: "served while held", before: rival + "HSET STATE served_tick now-20s", call: call, want: "3 now now-20s served"},
		{name: "just before half a period", before: ended + "HSET STATE served_tick now-40s", call: call, want: "3 now now-40s served"},
		{name: "at half a period", before: ended + "HSET STATE served_tick now-50s", call: call, want: "1 now now now now now"},
		{name: "an older tick", before: ended + "HSET STATE served_tick now-20s", call: call + " tick=now-90s", want: "3 now now-20s served"},
		{name: "as far ahead as it may be", before: ended + "HSET STATE served_tick now+100s", call: call, want: "3 now now+100s served"},
		{name: "up to a period ahead", before: ended + "HSET STATE served_tick now+90s", call: call, want: "3 now now+90s served"},
		{name: "the far future is garbage", before: ended + "HSET STATE served_tick now+900s", call: call, want: "1 now now now now now"},
		{name: "the own run goes on", before: leads + "HSET STATE served_tick now-20s", call: call, want: "1 now now-10s now-20s now-10s now-10s"},
	})
}

// A run that was never released is recorded as vanished.
func TestAcquireRecordsVanished(t *testing.T) {
	const vanished = `{"token":now-90s,"tick":now-100s,"start":now-90s,"end":now-60s,"exit":0,"vanished":true,"host":"host-b","holder":"other"}`
	const died = "HSET STATE token now-90s holder other acquired now-90s min_hold_until now-90s tick now-100s ttl_ms 30s expires now-60s;"
	const acquire = "acquire settle=0"
	runScriptCases(t, []scriptCase{
		{name: "filed", before: died, call: acquire, want: "1 now now 0 now now", after: "LRANGE RUNS 0 -1 = " + vanished + "; PTTL RUNS = 100s"},
		{name: "filed once", before: died + "RPUSH RUNS " + vanished, call: acquire, want: "1 now now 0 now now", after: "LRANGE RUNS 0 -1 = " + vanished},
		{name: "the truth stays", before: died + `RPUSH RUNS {"token":now-90s,"exit":0,"rest":1}`, call: acquire, want: "1 now now 0 now now", after: `LRANGE RUNS 0 -1 = {"token":now-90s,"exit":0,"rest":1}`},
		{name: "a released run did not vanish", before: ended, call: "acquire", want: "1 now now 0 now now", after: "EXISTS RUNS = 0"},
		{name: "the end is never later than now", before: died + "HSET STATE expires now+900s settle_since now-60s settle_due now-1s settle_server SELF", call: "acquire", want: "1 now now 0 now now", after: "LRANGE RUNS 0 -1 = " + strings.Replace(vanished, "now-60s", "now", 1)},
		{name: "the state says little", before: "HSET STATE token now-90s holder other ttl_ms 30s expires now-60s", call: acquire, want: "1 now now 0 now now",
			after: `LRANGE RUNS 0 -1 = {"token":now-90s,"tick":0,"start":0,"end":now-60s,"exit":0,"vanished":true,"host":"host-b","holder":"other"}`},
		{name: "an id of garbage is filed nowhere", before: "HSET STATE token now-90s holder ///\"}, expires now-60s", call: acquire, want: "1 now now 0 now now", after: "EXISTS RUNS = 0"},
	})
}

// A key settles if the server does not know it, or if its lease is over by the server's
// clock alone.
func TestAcquireSettles(t *testing.T) {
	const died = "HSET STATE token now-90s holder other acquired now-90s min_hold_until now-90s tick now-100s ttl_ms 30s expires now-60s;"
	runScriptCases(t, []scriptCase{
		{
			name: "a first grant", call: "acquire", want: "2 now 60s fresh",
			after: "GET LEASE = nil; HMGET STATE settle_since settle_due token = now now+60s nil; PTTL STATE = 100s; LLEN CALL = 16; PTTL CALL = 5s; EXISTS SERVING = 0",
		},
		{name: "not over", before: "HSET STATE settle_since now-20s settle_due now+40s settle_server SELF", call: "acquire", want: "2 now 40s fresh", after: "EXISTS CALL = 0"},
		{
			name: "over", before: "HSET STATE settle_since now-60s settle_due now-1s settle_server SELF", call: "acquire", want: "1 now now 0 now now",
			after: "HMGET STATE settle_since settle_due = _ _; GET SERVING = now SELF; PTTL SERVING = 2937600s",
		},
		{name: "long over: it begins anew", before: "HSET STATE settle_since now-130s settle_due now-70s settle_server SELF", call: "acquire", want: "2 now 60s fresh"},
		{name: "garbage: it begins anew", before: "HSET STATE settle_since now settle_due 9999999999999 settle_server SELF", call: "acquire", want: "2 now 60s fresh"},
		{name: "half of it is garbage: it begins anew", before: "HSET STATE settle_since now-10s settle_server SELF", call: "acquire", want: "2 now 60s fresh"},
		{name: "a day ahead is no garbage", before: "HSET STATE settle_since now settle_due now+86400s settle_server SELF", call: "acquire", want: "2 now 86400s fresh"},
		{name: "the marker is old enough", before: "SET SERVING now-100s~SELF", call: "acquire", want: "1 now now 0 now now", after: "GET SERVING = now-100s SELF"},
		{name: "the marker is young", before: "SET SERVING now-80s~SELF", call: "acquire", want: "2 now 60s fresh", after: "GET SERVING = now-80s SELF"},
		{name: "the marker is younger than two ttls", before: "SET SERVING now-100s~SELF", call: "acquire ttl=60s", want: "2 now 60s fresh"},
		{name: "the marker is older than two ttls", before: "SET SERVING now-140s~SELF", call: "acquire ttl=60s", want: "1 now now 0 now now"},
		{name: "the marker is of the future", before: "SET SERVING now+500s~SELF", call: "acquire", want: "2 now 60s fresh"},
		{name: "the marker is another server's", before: "SET SERVING now-900s~abc", call: "acquire", want: "2 now 60s fresh"},
		{name: "the marker of another server is replaced", before: "SET SERVING now-900s~abc", call: "acquire settle=0", want: "1 now now 0 now now", after: "GET SERVING = now SELF"},
		{name: "the marker is garbage", before: "SET SERVING x", call: "acquire", want: "2 now 60s fresh"},
		{name: "the marker does not hide a rollback", before: known, call: "acquire seen=now-50s seenttl=40s", want: "2 now 60s rollback"},
		{name: "a rollback waits the holder's ttl", before: known + ended, call: "acquire seen=now seenttl=90s settle=0", want: "2 now 90s rollback"},
		{name: "nor a vanished lease", before: known + "HSET STATE token now-10s holder other ttl_ms 30s expires now+20s", call: "acquire", want: "2 now 20s vanished", after: "LLEN CALL = 16"},
		{name: "a vanished lease of garbage ends with the ttl", before: "HSET STATE token now-10s holder other ttl_ms 40s expires now+900s", call: "acquire", want: "2 now 40s vanished"},
		{name: "a longer reason lengthens it", before: "HSET STATE settle_since now-10s settle_due now+10s settle_server SELF", call: "acquire seen=now seenttl=70s", want: "2 now 60s rollback", after: "HGET STATE settle_due = now+60s"},
		{name: "another server granted the last run", before: ended + "HSET STATE server abc", call: "acquire", want: "2 now 60s restarted", after: "LLEN CALL = 16"},
		{name: "another server granted it, and it is over", before: died + "HSET STATE server abc", call: "acquire", want: "2 now 60s restarted"},
		{name: "and it has settled", before: ended + "HSET STATE server abc settle_since now-60s settle_due now-1s settle_server SELF", call: "acquire", want: "1 now now 0 now now", after: "HGET STATE server = SELF"},
		{name: "this server granted the last run", before: ended + "HSET STATE server SELF", call: "acquire", want: "1 now now 0 now now"},
		{name: "nobody released, this candidate knows nothing", before: died, call: "acquire", want: "2 now 60s expired", after: "LLEN CALL = 16"},
		{name: "nobody released, the holder was called before the end", before: died + "HSET STATE settle_since now-60s settle_due now-1s settle_server SELF", call: "acquire", want: "1 now now 0 now now"},
		{name: "by this candidate's clock it goes on", before: died, call: "acquire settle=0 seen=now-90s seenttl=30s seenexpires=now-60s seenleft=20s", want: "2 now 20s expired"},
		{name: "for a ttl at most", before: died, call: "acquire settle=0 seen=now-90s seenttl=30s seenexpires=now-60s seenleft=90s", want: "2 now 30s expired"},
		{name: "what it knows is older", before: died, call: "acquire seen=now-90s seenttl=30s seenexpires=now-70s seenleft=90s", want: "2 now 60s expired"},
		{name: "it began on another server", before: "HSET STATE settle_since now-60s settle_due now-1s settle_server abc", call: "acquire", want: "2 now 60s fresh"},
		{name: "a known key does not settle", before: ended, call: "acquire", want: "1 now now 0 now now"},
	})
}

// The hosts that come for ticks are recorded.
func TestAcquireNotesCandidates(t *testing.T) {
	const call, noted = "acquire round=50s reach=100s tick=now", "HGET STATE candidates = "
	note := func(notes string) string { return "HSET STATE candidates " + notes + ";" }
	var many, kept []string
	for i := range 70 {
		many = append(many, fmt.Sprintf("h%d~now-20s~now-20s", i))
		kept = append(kept, fmt.Sprintf("h%d now-20s now-20s", i))
	}
	runScriptCases(t, []scriptCase{
		{name: "the first", before: known, call: call, want: "1 now now now now now", after: noted + "host-a now now"},
		{name: "not without ticks", before: known, call: "acquire", want: "1 now now 0 now now", after: noted + "nil"},
		{name: "the last one first", before: known + note("host-b~now-50s~now-20s"), call: call, want: "1 now now now now now", after: noted + "host-a now now host-b now-50s now-20s"},
		{name: "since when it comes", before: known + note("host-b~now-50s~now-20s~host-a~now-90s~now-30s"), call: call, want: "1 now now now now now", after: noted + "host-a now-90s now host-b now-50s now-20s"},
		{name: "turned away: once an hour", before: rival + note("host-a~now-90s~now-30s"), call: call, want: "0 now 20s held other now-10s 40s 10s now+20s", after: noted + "host-a now-90s now-30s"},
		{name: "turned away in the same millisecond", before: rival + note("host-b~now-50s~now-20s~host-a~now-90s~now"), call: call, want: "0 now 20s held other now-10s 40s 10s now+20s", after: noted + "host-b now-50s now-20s host-a now-90s now"},
		{name: "turned away after an hour", before: rival + note("host-a~now-3700s~now-3600s"), call: call + " keep=2h settle=5s", want: "0 now 20s held other now-10s 40s 10s now+20s", after: noted + "host-a now-3700s now; PTTL STATE = 7200s"},
		{name: "who has not come for long is forgotten", before: known + note("host-b~now-900s~now-100s"), call: call, want: "1 now now now now now", after: noted + "host-a now now"},
		{name: "the clock was wrong", before: known + note("host-b~now-50s~now+900s~host-c~now+100s~now+900s"), call: call, want: "1 now now now now now", after: noted + "host-a now now host-b now-50s now host-c now now"},
		{name: "not beside somebody else's program", before: "SET LEASE somebody PX 20s", call: call, want: "0 now 20s foreign somebody 0 30s 0 0", after: "EXISTS STATE = 0"},
		{name: "64 at the most", before: known + note(strings.Join(many, "~")), call: call, want: "1 now now now now now", after: noted + "host-a now now " + strings.Join(kept[:63], " ")},
	})
}
