//go:build race

package simulate

// schedules is small: the race detector makes them ten times slower, and any of them shows the
// errors that it can find.
const schedules = 5
