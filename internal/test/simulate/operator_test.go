package simulate

import (
	"context"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// operable is what an operator asks of a store.
type operable interface {
	HandOver(ctx context.Context, key string) (lease.Status, error)
	Revoke(ctx context.Context, key string, now bool) (lease.Status, error)
	Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error)
	Resume(ctx context.Context, key string) (lease.Status, error)
}

// operator uses the verbs of operators, one at a time, over a network that never fails.
type operator struct {
	p       *process
	turn    chan struct{}
	revokes bool // what it does now is to revoke, atOnce or not
	atOnce  bool
}

func newOperator(w *world) *operator {
	h := &host{w: w, name: "operator", rng: w.rng(), ttl: time.Second}
	return &operator{
		p:    &process{host: h, rng: w.rng(), killed: make(chan struct{})},
		turn: make(chan struct{}, 1),
	}
}

func (o *operator) operate(verb string, do func(context.Context, operable) error) error {
	w := o.p.host.w
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	c, err := w.store.client(o.p)
	if err != nil {
		w.fail("%v", err)
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	err = do(ctx, c)
	w.note("an operator: %s, %v", verb, err)
	w.faulty()
	return err
}

// handOver asks the leader to leave. It must have left when the next renewal could be
// answered, and its command had its grace.
func (o *operator) handOver() {
	w := o.p.host.w
	_ = o.operate("hand-over", func(ctx context.Context, c operable) error {
		s, err := c.HandOver(ctx, key)
		if err != nil || !s.HandOver {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, t := range w.live {
			if t.lease.Holder == s.Holder {
				set := t.p.set
				t.due(w.at(), set.Renew+set.Attempt+t.p.grace(), "an operator handed over", true)
			}
		}
		return nil
	})
}

// revoke takes the lease from its holder. What must hold then is in judgeOperator, died
// and explained.
func (o *operator) revoke(atOnce bool) {
	_ = o.operate("revoke", func(ctx context.Context, c operable) error {
		o.revokes, o.atOnce = true, atOnce
		defer func() { o.revokes = false }()
		_, err := c.Revoke(ctx, key, atOnce)
		return err
	})
}

// pause has nobody granted the key for a while, which judge checks.
func (o *operator) pause(span time.Duration) {
	w := o.p.host.w
	_ = o.operate("pause", func(ctx context.Context, c operable) error {
		w.setPause(lease.Pause{Until: 1}) // this one may be replaced by a shorter one
		s, err := c.Pause(ctx, key, span.Truncate(time.Millisecond), "somebody", "")
		if err == nil {
			w.setPause(s.Pause)
		}
		return err
	})
	w.faults.Go(func() {
		time.Sleep(span)
		w.faulty()
	})
}

// resume ends a pause.
func (o *operator) resume() error {
	return o.operate("resume", func(ctx context.Context, c operable) error {
		o.p.host.w.setPause(lease.Pause{Until: 1})
		_, err := c.Resume(ctx, key)
		return err
	})
}

// setPause notes until when nobody may be granted the key, by the store's clock.
func (w *world) setPause(p lease.Pause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pausedAt, w.pausedUntil = w.at(), p.Until
}

// judgeOperator looks at what a request of an operator did. The caller holds w.mu.
func (w *world) judgeOperator(before, after seen) {
	if after.value == before.value && after.token == before.token {
		return
	}
	holder := idIn(before.value)
	if !w.operator.revokes {
		w.failLocked("I6: an operator who does not revoke changed the lease of %s", holder)
	}
	if after.token <= before.token {
		w.failLocked("I2: the lease of %s was revoked, and the token is %d after %d", holder, after.token, before.token)
	}
	if after.value == "" && !w.operator.atOnce && w.lives(holder) {
		w.failLocked("I6: the lease of %s was revoked, and the key is free while its tree lives", holder)
	}
	w.noteLocked("%s: revoked, token %d, the key says %q", holder, after.token, after.value)
	w.largest, w.revoked[holder] = max(w.largest, after.token), w.at()
	if after.value == "" {
		w.takenAt = w.at()
	}
	for _, t := range w.live {
		if string(t.lease.Holder) == holder && t.out == 0 {
			t.out = w.at()
		}
	}
	if w.jobs != nil { // a minimum hold ends with it
		w.jobs.last = nil
	}
}
