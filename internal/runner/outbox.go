package runner

import (
	"errors"
	"io"
	"sync"
	"syscall"
	"time"
)

// outbox holds orders for a guard that may be slow to read them, so that nobody
// waits for a guard that is stopped.
type outbox struct {
	file   io.WriteCloser
	mu     sync.Mutex
	queue  []byte
	filled chan struct{}
}

func (o *outbox) put(order []byte) {
	o.mu.Lock()
	o.queue = append(o.queue, order...)
	o.mu.Unlock()
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

// drain writes until over is closed. A write that the guard never reads ends
// with the guard: the pipe breaks.
func (o *outbox) drain(over <-chan struct{}) {
	defer o.file.Close()
	for {
		select {
		case <-over:
			return
		case <-o.filled:
		}
		o.mu.Lock()
		orders := o.queue
		o.queue = nil
		o.mu.Unlock()
		for {
			n, err := o.file.Write(orders)
			if err == nil {
				break
			}
			if errors.Is(err, syscall.EPIPE) {
				return
			}
			orders = orders[n:] // a pipe may have no memory for a moment
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
}
