package run

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
)

// ofThisSystem returns the meanings of the signals that only Linux has. The Go runtime keeps PROF,
// CHLD, URG, STKFLT and the first three real-time signals for itself.
func ofThisSystem() (all []meaning) {
	const first, last = 35, 64 // RTMIN+1, RTMAX
	all = append(all, meaning{syscall.SIGPWR, campaign.Received{}})
	for sig := syscall.Signal(first); sig <= last; sig++ {
		all = append(all, meaning{sig, campaign.Received{}})
	}
	return all
}
