package cmd

import (
	"os"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// What a command is told about the lease it runs under, and a leaderrun inside
// that command reads.
const (
	keyVariable    = "LEADERRUN_KEY"
	holderVariable = "LEADERRUN_HOLDER"
	tokenVariable  = "LEADERRUN_TOKEN"
	fileVariable   = "LEADERRUN_LEASE_FILE" // absent where none could be made
	outerVariable  = "LEADERRUN_OUTER_KEYS" // of the leaderruns around the nearest one, with commas between them
)

// outerKeys are the keys of all leaderruns that this one runs inside; nil: none.
// LEADERRUN_KEY alone is a setting.
func outerKeys() []string {
	if _, nested := os.LookupEnv(holderVariable); !nested {
		return nil
	}
	keys := strings.Split(os.Getenv(outerVariable), ",")
	return append(keys, os.Getenv(keyVariable))
}

// environment is the command's, or a hook's: all that is leaderrun's own is taken
// out, since a setting may hold the store's password, and what they need to know
// about the lease is put in. leaseFile is empty where there is none. A service
// manager is told by leaderrun.
func environment(environ []string, key string, l lease.Lease, leaseFile string) []string {
	env := make([]string, 0, len(environ)+5)
	for _, v := range environ {
		if !strings.HasPrefix(v, "LEADERRUN_") && !strings.HasPrefix(v, observe.NotifySocket+"=") {
			env = append(env, v)
		}
	}
	if outer := strings.Trim(strings.Join(outerKeys(), ","), ","); outer != "" {
		env = append(env, outerVariable+"="+outer)
	}
	if leaseFile != "" {
		env = append(env, fileVariable+"="+leaseFile)
	}
	env = append(env, keyVariable+"="+key)
	if l.Holder == "" { // a hook may not know who leads
		return env
	}
	return append(env, holderVariable+"="+string(l.Holder), tokenVariable+"="+strconv.FormatInt(l.Token, 10))
}
