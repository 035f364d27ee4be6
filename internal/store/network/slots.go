package network

import (
	"context"
	"sync"
)

// Slots remembers that a server has refused a connection because it has too many. Then
// standbys poll and close their connection after each call, so that a holder whose
// connection broke soon finds a free one; and holders stop listening. Its zero value is
// ready. Several goroutines may use it.
type Slots struct {
	mu      sync.Mutex
	scarce  int
	refused chan struct{} // closed by the next refusal
}

// manyDials is how many connections in a row must be accepted before standbys keep theirs
// again.
const manyDials = 10

// Refused says that the server has too many connections.
func (s *Slots) Refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scarce = manyDials
	if s.refused != nil {
		close(s.refused)
		s.refused = nil
	}
}

// Admitted says that a new connection was answered.
func (s *Slots) Admitted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scarce = max(0, s.scarce-1)
}

// Scarce reports whether a standby should keep no connection.
func (s *Slots) Scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scarce > 0
}

// UntilRefused returns a context that ends with ctx, or with the next refusal.
func (s *Slots) UntilRefused(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = make(chan struct{})
	}
	refused := s.refused
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-refused:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
