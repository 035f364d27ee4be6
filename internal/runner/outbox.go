package runner

import (
	"errors"
	"io"
	"sync"
	"syscall"
	"time"
)

// outbox queues orders for the guard, so that nobody waits for a guard that is stopped.
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

// drain writes the orders until over is closed. A write that the guard does not read ends
// with the guard, since the pipe breaks.
func (o *outbox) drain(over <-chan struct{}) {
	defer func() { _ = o.file.Close() }()
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
		for len(orders) > 0 {
			n, err := o.file.Write(orders)
			orders = orders[n:]
			switch {
			case errors.Is(err, syscall.EPIPE):
				return
			case err != nil: // the kernel may lack memory for a moment
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}
	}
}
