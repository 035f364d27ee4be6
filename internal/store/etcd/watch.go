package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// hear follows the row of key: each change may be what the bell stands for.
func (s *Store) hear(ctx context.Context, bell keep.Bell, key string, enough func(keep.Row) bool) error {
	ctx, cancel := s.client.untilMoved(ctx)
	defer cancel()
	return s.client.inTurn(ctx, bell.Op(), func(ctx context.Context, host string, _ int) (err error) {
		defer func() {
			if err != nil && errors.Is(context.Cause(ctx), errMoved) {
				err = errMoved
			}
		}()
		first, cancel := context.WithTimeout(ctx, beginLimit)
		defer cancel()
		r, revision, err := keeper{s, host}.read(first, key)
		if err != nil || enough(r) {
			return err
		}
		w, err := s.client.watch(ctx, host, s.leaseOf(key), revision+1)
		if err != nil {
			return err
		}
		defer w.close()
		for {
			m, err := w.next()
			if err != nil {
				return broken{err}
			}
			for _, e := range m.Result.Events {
				if r.State, err = s.shown(key, e); err != nil || enough(r) {
					return err
				}
			}
			if m.Result.Compact != 0 { // changes may have been missed
				return nil
			}
		}
	})
}

// broken is the error of a watch that had begun. No other member is asked, since a holder
// must know that its watch has ended.
type broken struct{ error }

func (b broken) Unwrap() error { return b.error }

// shown returns the value of a key after an event.
func (s *Store) shown(key string, e event) (rules.State, error) {
	if e.Type == "DELETE" {
		return rules.New(key), nil
	}
	return s.parse(key, e.KV.Value)
}

// untilMoved returns a context that ends when another member becomes the first to be asked:
// then the member of this watch may have stopped.
func (c *client) untilMoved(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	moved := c.moved
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-moved:
			cancel(errMoved)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// watcher is a watch that etcd has acknowledged.
type watcher struct {
	body    io.Closer
	end     context.CancelFunc // of the request
	decoder *json.Decoder
}

// beginLimit is how long it may take to begin a watch.
const beginLimit = 3 * time.Second

// watch begins to follow a key from a revision on.
func (c *client) watch(ctx context.Context, host, key string, from int64) (*watcher, error) {
	var q watchRequest
	q.Create.Key, q.Create.Start = []byte(key), number(from)
	w, end, err := network.Begin(ctx, beginLimit, func(ctx context.Context) (*watcher, error) { return c.beginWatch(ctx, host, q) })
	if err != nil {
		return nil, err
	}
	w.end = end
	return w, nil
}

// beginWatch waits until etcd has acknowledged the watch.
func (c *client) beginWatch(ctx context.Context, host string, q watchRequest) (*watcher, error) {
	resp, err := c.ask(ctx, host, "/v3/watch", q)
	if err != nil {
		return nil, err
	}
	w := &watcher{body: resp.Body, decoder: json.NewDecoder(resp.Body)}
	m, err := w.next()
	if err == nil && !m.Result.Created {
		err = errNoAnswer
	}
	return w, err
}

// next waits for the next message.
func (w *watcher) next() (*watchAnswer, error) {
	var m watchAnswer
	if err := w.decoder.Decode(&m); err != nil {
		return nil, err
	}
	switch {
	case m.Error != nil:
		return nil, &serverError{text: m.Error.text(), structured: true}
	case m.Result.Canceled && m.Result.Compact == 0:
		return nil, &serverError{text: m.Result.Reason, structured: true}
	}
	return &m, nil
}

func (w *watcher) close() {
	w.end()
	_ = w.body.Close()
}
