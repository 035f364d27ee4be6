//go:build amd64 || arm64

package sender

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var (
	// noted has, for each signal's number, whether the kernel sent it, and whether a process
	// did: its id and the highest bit.
	noted [65][2]uint32
	// next is the runtime's handler, which is the same for all signals.
	next uintptr //nolint:unused // the assembly jumps there
	// note is the address of this package's handler.
	note uintptr
)

// Note begins to record who sends these signals. The runtime must handle them already.
func Note(signals ...syscall.Signal) {
	for _, sig := range signals {
		var action struct {
			handler, flags, restorer uintptr
			mask                     uint64
		}
		const maskLen, ignored = 8, 1
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), maskLen, 0, 0)
		if errno != 0 || action.handler <= ignored || action.handler == note {
			continue
		}
		next, action.handler = action.handler, note
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, maskLen, 0, 0)
	}
}

// Of reports who has sent the signal since the last call: the kernel, processes, or both. pid
// is the last process, 0 if it is outside this namespace. Several signals may arrive as one.
func Of(sig syscall.Signal) (kernel, process bool, pid int) {
	by := atomic.SwapUint32(&noted[sig][1], 0)
	return atomic.SwapUint32(&noted[sig][0], 0) != 0, by != 0, int(by &^ (1 << 31))
}
