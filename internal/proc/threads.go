package proc

import "runtime"

// ReserveThreads makes the runtime start n threads, which it keeps. If the process limit is
// used up, the runtime ends a program that needs one more thread.
func ReserveThreads(n int) {
	// Each goroutine keeps its own thread until all n exist. The channels are buffered: a
	// send that waits would make a goroutine sleep once more.
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
