package proc

import "runtime"

// ReserveThreads has the runtime start n threads, which it keeps: the runtime ends a
// program that needs one more where the process limit is used up.
func ReserveThreads(n int) {
	// Each goroutine keeps a thread of its own until all n are there. No send waits for its
	// receiver: that would cost each goroutine one more sleep.
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
	for range n { // a thread that is still locked can run nothing else
		<-free
	}
}
