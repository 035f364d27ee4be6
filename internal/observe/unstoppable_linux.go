package observe

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// unstoppable lets this goroutine write to its terminal from the background until back is called,
// though stty tostop may be set. A stopped elector could not renew; and where SIGTTOU is caught,
// the kernel would begin the write again for ever.
func unstoppable() (back func()) {
	runtime.LockOSThread()
	var output, before unix.Sigset_t
	output.Val[0] = 1 << (syscall.SIGTTOU - 1) // one of the first 32 signals
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &output, &before)
	return func() {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
		runtime.UnlockOSThread()
	}
}
