package lease

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// Holder is the id of one candidacy: host/pid/32 hex digits. The random part is new for
// every candidacy, so two containers with the same host name and pid differ. No two grants
// have the same holder, so comparing holders is as good as comparing tokens.
type Holder string

// NewHolder returns the id of a new candidacy. Characters of host that are not allowed in
// an id become '-', host is cut to 63 bytes, and an empty host becomes "unknown".
func NewHolder(host string, pid int) Holder {
	host = strings.Map(func(r rune) rune {
		if !inHost(r) {
			return '-'
		}
		return r
	}, host)
	if host == "" {
		host = "unknown"
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error
	return Holder(host[:min(len(host), maxHost)] + "/" + strconv.Itoa(pid) + "/" + hex.EncodeToString(b[:]))
}

const maxHost = 63

func inHost(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || inDigits(r) || r == '.' || r == '_' || r == '-'
}

func inDigits(r rune) bool { return r >= '0' && r <= '9' }

func inHex(r rune) bool { return inDigits(r) || r >= 'a' && r <= 'f' }

// Valid reports whether h has the form of an id.
func (h Holder) Valid() bool {
	parts := strings.Split(string(h), "/")
	return len(parts) == 3 &&
		made(parts[0], inHost, 1, maxHost) && made(parts[1], inDigits, 1, 10) && made(parts[2], inHex, 32, 32)
}

// made reports whether s has between least and most characters, all of them of a kind.
func made(s string, of func(rune) bool, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.IndexFunc(s, func(r rune) bool { return !of(r) }) < 0
}

// Host returns the host in the id.
func (h Holder) Host() string {
	host, _, _ := strings.Cut(string(h), "/")
	return host
}
