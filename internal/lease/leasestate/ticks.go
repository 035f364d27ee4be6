package leasestate

import "time"

// covers reports whether a candidate with this tick is late for what happened at
// mark. One after most is of a clock that was wrong: it must not silence a job until
// that time comes.
func covers(mark, tick, round, most int64) bool {
	return round > 0 && sameRound(mark, tick, round) && mark <= most
}

// sameRound reports whether tick is not of a later round than mark.
func sameRound(mark, tick, round int64) bool { return tick < mark+round }

// since is how long ago an Instant of wall time was.
func since(wall int64, now Instant) time.Duration { return milliseconds(max(0, now.Wall-wall)) }
