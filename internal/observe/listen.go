package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// Server reports the state of the run over HTTP. Clients cannot delay the run: the number
// and the duration of connections are limited.
type Server struct {
	metrics  *Metrics
	http     http.Server
	cancel   context.CancelFunc
	done     chan struct{}
	watchers chan struct{} // a place for each
}

const (
	patience = 5 * time.Second
	atOnce   = 16         // a renewal needs file descriptors, too
	watching = atOnce / 2 // others want to ask
)

// Serve serves at the address, from its own goroutine, until Close. Errors are logged.
func Serve(address string, m *Metrics, log *slog.Logger) *Server {
	s := newServer(m)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		if err := s.serve(ctx, address, log); err != nil && ctx.Err() == nil {
			log.Warn(fmt.Sprintf("metrics cannot be served at %s: %v", address, cause(err)), EventMetrics, HintAttr, listenHint(err))
		}
	}()
	return s
}

func newServer(m *Metrics) *Server {
	s := &Server{metrics: m, done: make(chan struct{}), watchers: make(chan struct{}, watching)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, true, "alive") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.HandleFunc("GET /leader", s.serveLeader)
	s.http = http.Server{
		Handler: mux, ReadTimeout: patience, WriteTimeout: patience, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // errors of clients
	}
	s.http.SetKeepAlivesEnabled(false)
	return s
}

func (s *Server) serve(ctx context.Context, address string, log *slog.Logger) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer listener.Close()
	log.Info("metrics at http://"+listener.Addr().String()+"/metrics", EventServing)
	context.AfterFunc(ctx, func() { _ = s.http.Close() })
	return s.accept(listener)
}

func (s *Server) accept(listener net.Listener) error {
	return s.http.Serve(netutil.LimitListener(listener, atOnce))
}

func listenHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "choose another port, or find out who has it: ss -ltnp"
	case errors.Is(err, syscall.EACCES):
		return "choose a port above 1023"
	}
	return "choose an address of this host, or give the port alone: --metrics-listen :9090"
}

// cause returns the error without the address, which the message already has.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// Close stops serving at once.
func (s *Server) Close() {
	s.cancel()
	await(s.done, time.Second) // it may still be resolving the host name
}

func answer(w http.ResponseWriter, good bool, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, text+"\n")
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(format(s.metrics.live(), s.metrics.labels))
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	state, holds := s.metrics.standing()
	switch {
	case holds:
		answer(w, true, "leading")
	case state.Phase.Waiting() && state.Outcome.Skips():
		answer(w, true, "standing by")
	case state.Phase.Waiting() && state.Outcome == candidate.Unavailable:
		answer(w, false, "the store cannot be used")
	case state.Phase.Waiting() && state.Outcome == candidate.Unchecked:
		answer(w, false, "the check of this host gives no answer")
	default:
		answer(w, false, "neither leading nor standing by")
	}
}
