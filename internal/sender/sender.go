// Package sender says whether a signal was sent by the kernel, as for a terminal, or by a
// process. A terminal's signal reaches its whole foreground process group, including the
// command; a process may have sent its signal only to leaderrun.
//
// A signal's siginfo says who sent it, but package os/signal drops that. The handlers belong
// to the Go runtime, and a signal cannot be blocked in all threads. So a handler of this
// package runs first, records the sender, and jumps to the runtime's. That is written for
// Linux on amd64 and arm64. Elsewhere every signal counts as the kernel's.
package sender
