//go:build linux

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/timed"
)

const written = `{"time":"1970-01-01T00:00:00.1Z","level":"DEBUG","msg":"Campaigning | begin | Campaigning | acquire","key":"k","event":"step"}
{"time":"1970-01-01T00:00:00.2Z","level":"DEBUG","msg":"Campaigning | tick done | Done(skipped) | ","key":"k","event":"step"}
{"time":"1970-01-01T00:00:00.2Z","level":"INFO","msg":"nothing ran: the tick of 0s ago has had its last try","key":"k","outcome":"skipped","event":"skipped"}
{"time":"1970-01-01T00:00:01Z","level":"DEBUG","msg":"Campaigning | begin | Campaigning | acquire","key":"k","event":"step"}
{"time":"1970-01-01T00:00:01.1Z","level":"DEBUG","msg":"Campaigning | held | Standby(denied) | wait","key":"k","event":"step"}
{"time":"1970-01-01T00:00:02Z","level":"DEBUG","msg":"Standby(denied) | woke | Campaigning(denied) | acquire","key":"k","event":"step"}
{"time":"1970-01-01T00:00:02.1Z","level":"DEBUG","msg":"Campaigning(denied) | granted | Starting | start","key":"k","event":"step"}
{"time":"1970-01-01T00:00:02.1Z","level":"INFO","msg":"the tick is that of 1970-01-01T00:00:02Z","key":"k","event":"tick"}
{"time":"1970-01-01T00:00:02.1Z","level":"INFO","msg":"the lease is acquired","key":"k","event":"acquired","holder":"h","token":7}
hello from the command
{"time":"1970-01-01T00:00:03Z","level":"DEBUG","msg":"Leading | timer | Leading | renew","key":"k","event":"step"}
{"time":"1970-01-01T00:00:03.1Z","level":"DEBUG","msg":"Leading | renewed | Leading | extend, listen","key":"k","event":"step"}
{"time":"1970-01-01T00:00:03.1Z","level":"INFO","msg":"the lease had gone from the store and was put back","key":"k","event":"reasserted"}
{"time":"1970-01-01T00:00:04Z","level":"DEBUG","msg":"Leading | pinged | Leading | renew, listen","key":"k","event":"step"}
{"time":"1970-01-01T00:00:04.1Z","level":"DEBUG","msg":"Leading | tree gone 0 | Releasing(exited) | release","key":"k","event":"step"}
{"time":"1970-01-01T00:00:04.2Z","level":"DEBUG","msg":"Releas`

// Calls are read from leaderrun's log, whether it is read in one part or two; its last line is
// incomplete.
func TestRecords(t *testing.T) {
	at := func(seconds float64) time.Duration { return time.Duration(seconds*10+0.5) * time.Second / 10 }
	want := []timed.Call{
		{Who: 5, Verb: timed.Acquire, Sent: at(0.1), Done: at(0.2), Answer: timed.Refused},
		{Who: 5, Verb: timed.Acquire, Sent: at(1), Done: at(1.1), Answer: timed.Held},
		{Who: 5, Verb: timed.Acquire, Sent: at(2), Done: at(2.1), Answer: timed.Granted, Token: 7, Tick: 2000},
		{Who: 5, Verb: timed.Renew, Sent: at(3), Done: at(3.1), Answer: timed.PutBack},
		{Who: 5, Verb: timed.Renew, Sent: at(4)},
		{Who: 5, Verb: timed.Release, Sent: at(4.1), Success: true},
	}
	for _, first := range []int{0, 700, 1100} {
		r := &records{file: filepath.Join(t.TempDir(), "log"), who: 5, child: &child{}}
		for _, text := range []string{written[:first], written} {
			must.Succeed(t, os.WriteFile(r.file, []byte(text), 0o600))
			must.Succeed(t, r.follow(0))
		}
		if got := r.all(); !reflect.DeepEqual(got, want) {
			t.Errorf("after %d bytes:\n%v, want\n%v", first, got, want)
		}
	}
}
