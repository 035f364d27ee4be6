package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
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
	s, err := redis.New(redis.Options{URL: "redis://192.0.2.1", Prefix: prefix, Dialer: p.dial})
	if err == nil {
		s.Here = p.host.shows
	}
	return s, err
}

func (r *redisServer) dial() (net.Conn, error) { return r.Dial() }

// waits: the command, not its letters in an id of a state.
func (r *redisServer) waits(request []byte) bool {
	return bytes.Contains(request, []byte("\r\nBLPOP\r\n")) || bytes.Contains(request, []byte("\r\nBRPOPLPUSH\r\n"))
}
func (r *redisServer) writes(request []byte) bool {
	return bytes.Contains(request, []byte("swap: replace"))
}

// names: a request sets a lease to its holder, or removes the one that it has read.
func (r *redisServer) names(request []byte, holder string) bool {
	removes := bytes.Contains(request, []byte("$0\r\n\r\n$1\r\n0\r\n"))
	for _, mark := range []string{"", cooling, takenFrom} {
		sets := bytes.Contains(request, []byte("\r\n"+mark+holder+"\r\n"))
		if sets || removes && bytes.Contains(request, []byte("\r\n="+mark+holder+"\r\n")) {
			return true
		}
	}
	return false
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
	var st rules.State
	_ = json.Unmarshal([]byte(r.HGet(stateKey, "state")), &st) // a new state if there is none
	s := seen{token: st.Token, ticks: fmt.Sprint(st.ServedTick, st.SeriesTick, st.Starts), anchor: st.SeriesTick}
	s.value, _ = r.Get(leaseKey)
	s.left = r.TTL(leaseKey)
	if g := st.Grant; g != nil && !g.Cooldown && !g.Revoked {
		s.id, s.tick, s.acquired = string(g.Holder), g.Tick, g.Acquired
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
