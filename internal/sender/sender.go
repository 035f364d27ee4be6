// Package sender says whether a signal was sent by the kernel, as for a terminal,
// or by a process. A terminal sends to its whole foreground process group, of which
// a command is then a part; a process may have sent to this one alone.
//
// The word stands in the siginfo that comes with a signal, which package os/signal
// drops. Handlers are the runtime's, and no signal can be blocked in all of its
// threads: so a handler of this package's goes before the runtime's, notes the word,
// and jumps there. It is written for linux on amd64 and arm64; elsewhere nothing is
// known.
package sender
