package rules

import "time"

// covers reports whether mark, a tick that was served or started, makes this tick
// superfluous. A mark after most comes from a wrong clock: it must not suppress a job until
// that time.
func covers(mark, tick, round, most int64) bool {
	return round > 0 && sameRound(mark, tick, round) && mark <= most
}

// sameRound reports whether tick belongs to the round of mark or an earlier one.
func sameRound(mark, tick, round int64) bool { return tick < mark+round }

// since returns how long ago a wall time was.
func since(wall int64, now Instant) time.Duration { return milliseconds(max(0, now.Wall-wall)) }
