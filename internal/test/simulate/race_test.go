//go:build race

package simulate

// schedules are few: the race detector makes them ten times as slow, and what it is
// after shows in any of them.
const schedules = 5
