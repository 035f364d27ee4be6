package file

import (
	"os"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// mostPruned is the largest number of keys that one call removes.
const mostPruned = 10

// prune removes the files of keys that are idle, see [leasestate.State.Idle]. It is called
// after the files of a new key are created, so the directory does not grow for ever, and
// renewals take no longer. Errors are ignored: the next call tries again.
func (s *Store) prune(now leasestate.Instant) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	left := mostPruned
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !old(e, now) {
			continue
		}
		if s.forget(name, now) {
			left--
		}
		if left == 0 {
			return
		}
	}
}

// old reports whether a file may be idle, without reading it.
func old(e os.DirEntry, now leasestate.Instant) bool {
	info, err := e.Info()
	return err == nil && info.ModTime().Add(leasestate.MinKeep).UnixMilli() < now.Wall
}

// forget removes the files of a key if it is idle, in a turn of its own.
func (s *Store) forget(name string, now leasestate.Instant) bool {
	path, key := s.dir+"/"+name, strings.ReplaceAll(name, "+", "/")
	if !lease.ValidKey(key) {
		return false
	}
	t, err := tryTurn(path)
	if t == nil || err != nil {
		return false
	}
	defer t.end()
	info, err := os.Lstat(path + ".json")
	if err != nil {
		return false
	}
	st, _, err := load(path+".json", key)
	if err != nil || !st.Idle(info.ModTime().UnixMilli(), now) || os.Remove(path+".json") != nil {
		return false
	}
	return os.Remove(path+".lock") == nil
}
