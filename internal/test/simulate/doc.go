// Package simulate runs candidates against a hostile world in virtual time: the
// real campaign, the real client of Redis and its scripts, on a Redis in memory,
// over a network, under guards and on hosts that fail as a seed says. Everything
// in it is a test; docs/proof.md says what it proves and what it cannot.
package simulate
