//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

const (
	crowdSize   = 10_000
	connections = 300
)

// crowd lets very many candidates ask for one key at the same time, on new connections.
func crowd(b *bench) error {
	store, err := b.redis.open()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := settle(store); err != nil {
		return err
	}
	before, err := b.redis.info()
	if err != nil {
		return err
	}
	won, denied, failed, took := rush(store)
	after, err := b.redis.info()
	if err != nil {
		return err
	}
	fmt.Printf("  %d candidates through %.0f connections: %d won, %d denied, %d without an answer, in %.0f ms; %.1f µs of the server's processor each\n",
		crowdSize, after.number("total_connections_received:")-before.number("total_connections_received:")-1,
		won, denied, len(failed), ms(took), (after.cpu()-before.cpu())*1e6/crowdSize)
	if len(failed) > 0 {
		return fmt.Errorf("the first of %d: %w", len(failed), failed[0])
	}
	if won != 1 {
		return fmt.Errorf("%d candidates won", won)
	}
	return nil
}

func request() lease.Request {
	return lease.Request{Key: "crowd", Holder: newHolder(), TTL: 30 * time.Second, Meta: "{}"}
}

// settle makes the server know the key: a key that it does not know settles first.
func settle(store lease.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := request()
	for {
		l, err := store.Acquire(ctx, r)
		if err == nil {
			return store.Release(ctx, l, lease.Result{})
		}
		settling, ok := errors.AsType[*lease.SettlingError](err)
		if !ok {
			return err
		}
		time.Sleep(settling.Remaining)
	}
}

// rush sends the requests of the crowd. Each connection sends its share one after the other.
func rush(store lease.Store) (won, denied int, failed []error, took time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	queue := make(chan lease.Request, crowdSize)
	for range crowdSize {
		queue <- request()
	}
	close(queue)
	begin := clock()
	for range connections {
		all.Go(func() {
			for r := range queue {
				_, err := store.Acquire(ctx, r)
				_, held := errors.AsType[*lease.HeldError](err)
				mu.Lock()
				switch {
				case err == nil:
					won++
				case held:
					denied++
				default:
					failed = append(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return won, denied, failed, clock() - begin
}
