package simulate

import (
	"net"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// backend is the store of a world: a server in memory, which the world observes and damages,
// and the client of each process.
type backend interface {
	// client returns the client of a process, which uses the network p.dial.
	client(p *process) (client, error)
	// dial opens a connection to the server itself.
	dial() (net.Conn, error)
	// waits reports whether a request is answered only when something happens, and changes
	// nothing; writes, whether it may change the key; and names, whether it is on behalf of
	// this holder.
	waits(request []byte) bool
	writes(request []byte) bool
	names(request []byte, holder string) bool
	// showTime is called whenever the clock is read, and stepped before it is set.
	showTime(now time.Time)
	stepped(by time.Duration)
	look() seen
	// save saves the server's data, restore restores it, and clear deletes all data.
	save()
	restore()
	clear()
	// evict removes the lease in one of several ways, and returns a text that says how.
	// Another program's value at the key, if that is left, stays for span.
	evict(way int, span time.Duration) string
	close()
}

// foreign is another program's value.
const foreign = "foreign"

// cooling and takenFrom stand before a holder whose run has ended, or was ended by an operator.
const cooling, takenFrom = "cooldown:", "revoked:"

// idIn is the holder in what the key says.
func idIn(value string) string {
	return strings.TrimPrefix(strings.TrimPrefix(value, cooling), takenFrom)
}

type client interface {
	lease.Store
	operable
}
