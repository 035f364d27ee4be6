package lease

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// Holder is the id of one candidacy: host/pid/32 hex digits. The random part is
// new for every candidacy, so two containers with the same host name and pid
// differ, and comparing it stands for comparing the token.
type Holder string

var holderForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}/[0-9]{1,10}/[0-9a-f]{32}$`)

// NewHolder makes the id of a new candidacy. Characters of host that are not
// allowed in an id become '-'; an empty host becomes "unknown".
func NewHolder(host string, pid int) Holder {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, host)
	if clean == "" {
		clean = "unknown"
	}
	if len(clean) > 63 {
		clean = clean[:63]
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error
	return Holder(clean + "/" + strconv.Itoa(pid) + "/" + hex.EncodeToString(b[:]))
}

// Valid reports whether h has the form of an id.
func (h Holder) Valid() bool { return holderForm.MatchString(string(h)) }

// Host returns the host's part of the id.
func (h Holder) Host() string {
	host, _, _ := strings.Cut(string(h), "/")
	return host
}
