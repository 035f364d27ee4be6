package run

import (
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// environment returns the environment of the command or of a hook. leaderrun's own
// variables are removed, since a setting may contain the store's password; those of the
// lease are added. leaseFile may be empty. The socket of the service manager is removed:
// leaderrun itself notifies it.
func environment(environ []string, key string, l lease.Lease, leaseFile string) []string {
	var env []string
	for _, v := range environ {
		if !strings.HasPrefix(v, "LEADERRUN_") && !strings.HasPrefix(v, observe.NotifySocket+"=") {
			env = append(env, v)
		}
	}
	if outer := strings.Trim(strings.Join(settings.OuterKeys(), ","), ","); outer != "" {
		env = append(env, settings.OuterKeysVariable+"="+outer)
	}
	if leaseFile != "" {
		env = append(env, settings.LeaseFileVariable+"="+leaseFile)
	}
	env = append(env, settings.KeyVariable+"="+key)
	if l.Holder == "" { // a hook of a candidate that never led
		return env
	}
	return append(env, settings.HolderVariable+"="+string(l.Holder), settings.TokenVariable+"="+strconv.FormatInt(l.Token, 10))
}
