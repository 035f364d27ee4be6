package redis

import (
	"fmt"
	"strings"
)

// forgetKey removes all but the token, unless that is to go as well, and who has
// released it.
func (m *model) forgetKey(token bool) []any {
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	before := m.status()
	if m.value != "" || strings.HasPrefix(m.holder, "host-") || m.paused() > 0 {
		return before
	}
	kept := blank
	kept.token, kept.released, kept.server = m.token, m.released, m.server
	kept.since, kept.due, kept.settler = m.since, m.due, m.settler
	if token {
		kept.token = none
	}
	if m.memoryEnd != 0 {
		m.memoryEnd = m.now + minKeep.Milliseconds()
	}
	m.memory, m.runs = kept, nil
	return before
}

func (m *model) pass() []any {
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	m.wakeEnd = m.now + wakeLife
	return m.answer(1)
}

// status is what operators are shown.
func (m *model) status() []any {
	why, id := m.kind()
	holder, known := "", strings.HasPrefix(m.holder, "host-")
	if known {
		holder = m.holder
	}
	switch why {
	case "held":
		holder, known = id, id == m.holder
	case "revoked":
		holder, known = id, true
	case "cooldown":
		holder, known = "", true
	}
	left := int64(0)
	if m.value != "" && m.leaseEnd != never {
		left = m.leaseEnd - m.now
	}
	shown := func(n int64) int64 {
		if n > largest {
			return 0
		}
		return or(n, 0)
	}
	asked := why == "held" && known && m.token != none && m.asked == fmt.Sprint(m.token)
	ttl, granted, holdUntil, tick, meta := shown(m.ttl), shown(m.granted), shown(m.holdUntil), shown(m.tick), m.meta
	if !known {
		ttl, granted, holdUntil, tick, meta = 0, 0, 0, 0, ""
	}
	var runs []string
	for _, r := range m.runs {
		runs = append(runs, r.record)
	}
	return m.answer(1, append([]any{why, m.value, left, holder, or(m.token, 0), ttl, granted, holdUntil, tick,
		shown(m.served), shown(m.starts), bit(asked), meta, runs}, append(m.shownPause(), shown(m.period), m.candidates, shown(m.tries))...)...)
}

// paused is how much of a pause is left, never more than all of it.
func (m *model) paused() int64 {
	all := m.pauseUntil - m.pauseSince
	if m.pauseSince == none || m.pauseUntil == none || all > mostPaused {
		return 0
	}
	return max(0, min(m.pauseUntil-m.now, all))
}

// shownPause is the part of an answer that describes the pause.
func (m *model) shownPause() []any {
	if m.paused() == 0 {
		return []any{int64(0), int64(0), "", ""}
	}
	return []any{m.pauseSince, m.pauseUntil, m.pauseBy, ""}
}

func (m *model) pause(c call) []any {
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	m.pauseSince, m.pauseUntil, m.pauseBy = m.now, m.now+c.pause, "ann@db1"
	m.memoryEnd = m.now + max(m.kept(minKeep.Milliseconds()), c.pause)
	return m.status()
}

func (m *model) resume() []any {
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	before := m.status()
	if m.paused() > 0 {
		m.pauseSince, m.pauseUntil, m.pauseBy = none, none, ""
		m.wakeEnd = m.now + wakeLife
	}
	return before
}

func (m *model) handOver() []any {
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	if why, id := m.kind(); why == "held" && id == m.holder && m.token != none {
		m.asked = fmt.Sprint(m.token)
		m.ctlEnd = m.now + wakeLife
	}
	return m.status()
}

func (m *model) revoke(atOnce bool) []any {
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	before := m.status()
	why, id := m.kind()
	if why == "revoked" {
		m.ctlEnd = m.now + wakeLife
	}
	if !atOnce && why != "held" && why != "cooldown" {
		return before
	}
	token := max(or(m.token, 0)+1, m.now)
	if token > largest {
		return m.fault("token is out of range")
	}
	keep := m.kept(minKeep.Milliseconds())
	if strings.HasPrefix(m.holder, "host-") {
		if m.token != none {
			m.file(m.token, or(m.tick, 0), or(m.granted, 0), min(or(m.ends, m.now), m.now), none, m.holder, keep)
		}
		m.retire(m.holder)
	}
	if why == "held" && id != m.holder {
		m.retire(id)
	}
	m.token, m.holder, m.asked, m.stopping, m.since, m.due = token, "", "", "", none, none
	m.memoryEnd = m.now + keep
	m.ctlEnd = m.now + wakeLife
	if why != "held" || atOnce {
		m.value, m.wakeEnd = "", m.now+wakeLife
		return before
	}
	m.stopping = id
	if m.value = "revoked:" + id; m.leaseEnd == never {
		m.leaseEnd = m.now + or(m.ttl, 30*second)
	}
	m.leaseEnd = max(m.leaseEnd, m.now+1)
	return before
}
