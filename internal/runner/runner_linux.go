package runner

// killLeftBehind kills what a dead guard held: this process has inherited it.
func (h *held) killLeftBehind() { sweep(h.strangers) }
