package simulate

import (
	"net"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// backend is the store of a world: a server in memory that the world looks at and
// hurts, and what a process needs to speak to it.
type backend interface {
	// client is a process's way to the server, whose network is p.dial.
	client(p *process) (client, error)
	// dial opens a connection to the server itself.
	dial() (net.Conn, error)
	// waits says that a request is answered when something happens, and changes
	// nothing; writes that it may change the key. names says that it speaks for
	// this holder.
	waits(request []byte) bool
	writes(request []byte) bool
	names(request []byte, holder string) bool
	// showTime is called whenever somebody looks at the clock, stepped before it is
	// set.
	showTime(now time.Time)
	stepped(by time.Duration)
	look() seen
	// save notes what there is, restore brings it back. clear forgets all.
	save()
	restore()
	clear()
	// evict takes the lease out of the store in one of several ways, and says which.
	// What others may leave at the key stays for that span.
	evict(way int, span time.Duration) string
	close()
}

// foreign is what others leave there.
const foreign = "foreign"

// cooling and takenFrom stand before a holder whose run has ended, or was ended by an operator.
const cooling, takenFrom = "cooldown:", "revoked:"

// idIn is the holder in what the key says.
func idIn(value string) string {
	return strings.TrimPrefix(strings.TrimPrefix(value, cooling), takenFrom)
}

type client interface {
	lease.Store
	lease.Pinger
	operable
}
