package rules

import (
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// remembered is how many released holders a state keeps.
const remembered = 20

// vanish records the run of the newest grant as vanished, if its end was not reported.
func (st *State) vanish() {
	if g := st.Grant; g.isLease() {
		tick := g.Tick
		if g.Recent > 0 {
			tick = 0
		}
		st.note(lease.Run{Token: st.Token, Tick: tick, Start: g.AcquiredWall, Host: g.Holder.Host(), Holder: g.Holder, Vanished: true})
	}
}

// retire records a holder that must never be granted anything again.
func (st *State) retire(holder lease.Holder) {
	if !slices.Contains(st.Released, holder) {
		st.Released = slices.Insert(st.Released, 0, holder)
		st.Released = st.Released[:min(len(st.Released), remembered)]
	}
}

// note keeps one entry per token; a holder's report replaces that it vanished.
func (st *State) note(r lease.Run) {
	i := slices.IndexFunc(st.Runs, func(old lease.Run) bool { return old.Token <= r.Token })
	switch {
	case i < 0:
		st.Runs = append(st.Runs, r)
	case st.Runs[i].Token < r.Token:
		st.Runs = slices.Insert(st.Runs, i, r)
	case st.Runs[i].Vanished:
		st.Runs[i] = r
	}
	st.Runs = st.Runs[:min(len(st.Runs), lease.MaxRuns)]
}

// servedOn returns the host whose run served the tick; "" if the run is not kept.
func (st *State) servedOn() string {
	for _, run := range lease.ValidRuns(st.Runs) {
		if run.Tick == st.ServedTick && run.Exit == 0 && !run.Vanished {
			return run.Host
		}
	}
	return ""
}
