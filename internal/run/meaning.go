package run

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
)

// meaning is what a signal means to leaderrun.
type meaning struct {
	signal syscall.Signal
	campaign.Received
}
