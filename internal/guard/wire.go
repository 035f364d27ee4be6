package guard

import "syscall"

// Marker is the environment variable that makes a process a guard. Its value is the
// descriptor from which the guard reads orders; the next descriptor is for its reports, and two
// are the guard's and the elector's end of a pipe that carries nothing: each process's death
// closes its end. The command does not get the variable.
const Marker = "LEADERRUN_GUARD"

// Name is the guard's name in ps. It does not contain the elector's, so that pkill leaderrun
// does not kill both processes that hold a tree.
const Name = "lease-guard"

// EnderMarker is the environment variable that makes a process an ender: it does what its elector
// can no longer do, since it is dead. The guard executes it in its own place once the tree is gone.
const EnderMarker = "LEADERRUN_ENDER"

// EnderName is the ender's name in ps.
const EnderName = "lease-ender"

// Settings are those of the guard's Go runtime. Where the command has used up a limit of
// processes, the runtime ends a program that needs one more thread. So there is one more
// processor than goroutines, which then never wait for each other, and no garbage collection
// unless the memory reaches a limit that the guard is far from.
var Settings = []string{"GOMAXPROCS=3", "GOGC=off", "GOMEMLIMIT=32MiB", "GOTRACEBACK=none"}

// OrderKind says what the elector orders.
type OrderKind uint32

const (
	OrderStart      OrderKind = iota + 1 // Value: kill-by; with a Command
	OrderExtend                          // Value: kill-by
	OrderSignal                          // Value: the signal
	OrderKill                            // SIGKILL to the whole tree; answered by a report
	OrderLeave                           // the guard ends, and the tree lives on
	OrderSignalRest                      // Value: the last signal, for those who have not got it
)

// Command is what the guard starts.
type Command struct {
	StartBy int64    // no start after this, in ns of proc.Now
	Path    string   // the program
	Args    []string // argv, which begins with the name
	Env     []string
	// Ender is what the ender reads on its standard input; "" if there is to be none. The guard
	// does not know what it means.
	Ender string
	// Shared: the command stays in the caller's process group, at a terminal, and signals are
	// sent to the command alone. Otherwise it gets its own group, to which they are sent.
	Shared bool
	// Merged: the command's standard error is its standard output. The guard's own may be nowhere
	// then: where the process limit is used up, the Go runtime would write stacks there.
	Merged bool
}

// ReportKind says what the guard reports.
type ReportKind uint32

const (
	ReportStarted ReportKind = iota + 1 // Value: the command's process id
	ReportFailed                        // Value: errno; nothing runs
	ReportEnded                         // Value: wait status; descendants live
	ReportGone                          // Value: wait status; nothing of the tree lives
	ReportExpired                       // as ReportGone, but something lived at kill-by
	ReportKilling                       // the answer to OrderKill while something lives
)

// Report is one message of the guard.
type Report struct {
	Kind  ReportKind
	Value int64
}

const headerLen = 16

// EncodeOrder returns an order as bytes. c is nil except for OrderStart; other orders are
// shorter than PIPE_BUF, so they are written whole or not at all.
func EncodeOrder(kind OrderKind, value int64, c *Command) []byte {
	var body []byte
	if c != nil {
		body = put32(put32(put64(body, c.StartBy), flag(c.Shared)|flag(c.Merged)<<1), uint32(len(c.Args)))
		for _, s := range append(append([]string{c.Path, c.Ender}, c.Args...), c.Env...) {
			body = append(append(body, s...), 0) // neither exec's strings nor JSON contain NUL
		}
	}
	b := put64(put32(put32(nil, uint32(kind)), uint32(len(body))), value)
	return append(b, body...)
}

// decodeCommand reads the body of an OrderStart; ok is false for any other bytes.
func decodeCommand(b []byte) (c Command, ok bool) {
	const numbers = 16
	var all []string
	start := numbers
	for i := numbers; i < len(b); i++ {
		if b[i] == 0 {
			all = append(all, string(b[start:i]))
			start = i + 1
		}
	}
	if start != len(b) { // cut off
		return c, false
	}
	c.StartBy, c.Shared, c.Merged = int64(get64(b)), get32(b[8:])&1 != 0, get32(b[8:])&2 != 0
	n := int(get32(b[12:]))
	if n < 1 || len(all) < n+2 {
		return c, false
	}
	c.Path, c.Ender, c.Args, c.Env = all[0], all[1], all[2:n+2], all[n+2:]
	return c, true
}

// encodeEnder returns what the ender reads.
func encodeEnder(killBy int64, told string) []byte { return append(put64(nil, killBy), told...) }

// DecodeEnder returns the guard's last kill-by, and Command.Ender; ok is false if this is not
// what a guard has written.
func DecodeEnder(b []byte) (killBy int64, told []byte, ok bool) {
	const number = 8
	if len(b) <= number {
		return 0, nil, false
	}
	return int64(get64(b)), b[number:], true
}

// ReportLen is the length of every report.
const ReportLen = headerLen

// DecodeReport reads a report of ReportLen bytes.
func DecodeReport(b []byte) Report {
	return Report{Kind: ReportKind(get64(b)), Value: int64(get64(b[8:]))}
}

func encodeReport(r Report) []byte {
	return put64(put64(nil, int64(r.Kind)), r.Value)
}

func flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}

func put32(b []byte, v uint32) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

func put64(b []byte, v int64) []byte {
	return put32(put32(b, uint32(v)), uint32(uint64(v)>>32))
}

func get32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func get64(b []byte) uint64 { return uint64(get32(b)) | uint64(get32(b[4:]))<<32 }

// number reads a number, and returns -1 for any other text. strconv would have to be
// initialised before the guard.
func number(text string) (n int) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > 1<<20 {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// readFull fills b. It returns false at the end of the pipe.
func readFull(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Read(fd, b)
		switch {
		case err == syscall.EINTR:
		case err != nil || n == 0:
			return false
		default:
			b = b[n:]
		}
	}
	return true
}

// tries is how often a write is tried: the kernel may lack memory for a moment.
const tries = 3

// tryWrite writes b, which is shorter than PIPE_BUF, and reports whether that succeeded.
func tryWrite(fd int, b []byte) bool {
	for range tries {
		if n, _ := syscall.Write(fd, b); n == len(b) {
			return true
		}
	}
	return false
}
