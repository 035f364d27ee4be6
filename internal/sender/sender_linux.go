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
	next uintptr // the assembly jumps there
	// note is the address of this package's handler.
	note uintptr
)

// action is the kernel's struct sigaction.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const maskLen, ignored = 8, 1

func actionOf(sig syscall.Signal) (a action, ok bool) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), maskLen, 0, 0)
	return a, errno == 0
}

func (a action) set(sig syscall.Signal) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&a)), 0, maskLen, 0, 0)
}

// Note begins to record who sends these signals. The runtime must handle them already.
func Note(signals ...syscall.Signal) {
	for _, sig := range signals {
		a, ok := actionOf(sig)
		if !ok || a.handler <= ignored || a.handler == note {
			continue
		}
		atomic.StoreUintptr(&next, a.handler)
		a.handler = note
		a.set(sig)
	}
}

// Catch drops the signal, and only records who sent it. A child has its default action again; an
// ignored signal stays ignored. It is for a process that does not call Note.
func Catch(sig syscall.Signal) bool {
	const handled = syscall.SIGUSR1 // by the runtime, with the flags that its threads need
	own, known := actionOf(sig)
	a, ok := actionOf(handled)
	if !known || !ok {
		return false
	}
	if own.handler != ignored {
		a.handler = note
		a.set(sig)
	}
	return true
}

// Of reports who has sent the signal since the last call: the kernel, processes, or both. pid
// is the last process, 0 if it is outside this namespace. Several signals may arrive as one.
func Of(sig syscall.Signal) (kernel, process bool, pid int) {
	by := atomic.SwapUint32(&noted[sig][1], 0)
	return atomic.SwapUint32(&noted[sig][0], 0) != 0, by != 0, int(by &^ (1 << 31))
}
