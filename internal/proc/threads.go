package proc

import "runtime"

// ReserveThreads has the runtime start n threads, which it keeps: where a process
// limit is used up it ends a program that needs one more.
func ReserveThreads(n int) {
	// Each goroutine keeps a thread of its own until all n are there. Nobody waits to be
	// heard: that would cost each of them one more sleep.
	started, enough, free := make(chan struct{}, n), make(chan struct{}), make(chan struct{}, n)
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-enough
			runtime.UnlockOSThread()
			free <- struct{}{}
		}()
	}
	for range n {
		<-started
	}
	close(enough)
	for range n { // until then a thread is no good for anything else
		<-free
	}
}
