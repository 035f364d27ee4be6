// Package simulate runs candidates under faults, in virtual time. It uses the real campaign,
// and the real Redis client and scripts on a Redis in memory. Network, guards and hosts are
// simulated, and fail as a seed says. The package has only tests; docs/design/proof.md says what they
// prove and what they cannot.
package simulate
