package simulate

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/leaderrun/leaderrun/internal/store/redis"
)

const (
	leaseKey  = prefix + ":leader:" + key
	stateKey  = prefix + ":state:{" + leaseKey + "}"
	markerKey = prefix + ":serving"
)

// redisServer runs the scripts of Redis.
type redisServer struct {
	*miniredis.Miniredis
	w     *world
	saved snapshot
}

// snapshot is the server's data, with which it may be restarted.
type snapshot struct {
	values map[string]string
	left   map[string]time.Duration
	state  map[string]string
}

func newRedis(w *world) backend {
	r := &redisServer{Miniredis: miniredis.NewMiniRedis(), w: w}
	r.ClockTTL(true)
	if c, err := r.Dial(); err == nil { // miniredis has a server from the first call on
		_ = c.Close()
	}
	r.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "INFO" {
			c.WriteBulk(fmt.Sprintf("run_id:%x5e\r\nmaster_replid:5e\r\n", w.server.Load())) // the scripts read the first twenty digits
		}
		return command == "INFO"
	})
	return r
}

func (r *redisServer) client(p *process) (client, error) {
	return redis.New(redis.Options{URL: "redis://192.0.2.1", Prefix: prefix, Dialer: p.dial})
}

func (r *redisServer) dial() (net.Conn, error) { return r.Dial() }

func (r *redisServer) waits(request []byte) bool  { return bytes.Contains(request, []byte("BLPOP")) }
func (r *redisServer) writes(request []byte) bool { return bytes.Contains(request, []byte("EVAL")) }

func (r *redisServer) names(request []byte, holder string) bool {
	return bytes.Contains(request, []byte(holder))
}

func (r *redisServer) showTime(now time.Time) { r.SetTime(now) }

// stepped changes what is left of each key: expiries are points in time, but miniredis counts
// the rest down.
func (r *redisServer) stepped(by time.Duration) {
	if left := r.TTL(leaseKey); left > 0 && by < 0 {
		r.SetTTL(leaseKey, left-by)
	}
}

func (r *redisServer) look() seen {
	var s seen
	s.value, _ = r.Get(leaseKey)
	s.left = r.TTL(leaseKey)
	s.id = r.HGet(stateKey, "holder")
	s.token, _ = strconv.ParseInt(r.HGet(stateKey, "token"), 10, 64)
	s.tick, _ = strconv.ParseInt(r.HGet(stateKey, "tick"), 10, 64)
	s.acquired, _ = strconv.ParseInt(r.HGet(stateKey, "acquired"), 10, 64)
	for _, field := range []string{"served_tick", "series_tick", "starts"} {
		s.ticks += r.HGet(stateKey, field) + " "
	}
	return s
}

func (r *redisServer) save() {
	s := snapshot{values: map[string]string{}, left: map[string]time.Duration{}, state: map[string]string{}}
	for _, name := range []string{leaseKey, markerKey} {
		if v, err := r.Get(name); err == nil {
			s.values[name], s.left[name] = v, r.TTL(name)
		}
	}
	fields, _ := r.HKeys(stateKey)
	for _, f := range fields {
		s.state[f] = r.HGet(stateKey, f)
	}
	r.saved = s
}

// restore restores an older state. A lease in it is over, or will be soon.
func (r *redisServer) restore() {
	r.FlushAll()
	for name, v := range r.saved.values {
		_ = r.Set(name, v)
		r.SetTTL(name, max(time.Millisecond, min(r.saved.left[name], time.Second)))
	}
	for f, v := range r.saved.state {
		r.HSet(stateKey, f, v)
	}
}

func (r *redisServer) clear() { r.FlushAll() }

func (r *redisServer) evict(way int, span time.Duration) string {
	switch way {
	case 0:
		r.FlushAll()
		return "FLUSHALL"
	case 1:
		r.Del(leaseKey)
		return "the lease is evicted"
	case 2:
		r.Del(stateKey)
		return "the state is evicted"
	}
	_ = r.Set(leaseKey, foreign)
	r.SetTTL(leaseKey, span)
	r.w.takenOut()
	return "somebody else's program takes the key"
}

func (r *redisServer) close() { r.Close() }
