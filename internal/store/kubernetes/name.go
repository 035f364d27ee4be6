package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// isDNSName reports whether text has the form of a Lease's name, of any length. It uses no
// regular expression: that costs every start of leaderrun a quarter of a millisecond.
func isDNSName(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if !isLabel(part) {
			return false
		}
	}
	return true
}

func isLabel(part string) bool {
	return part != "" && part[0] != '-' && part[len(part)-1] != '-' && strings.IndexFunc(part, func(r rune) bool { return r != '-' && !inLabel(r) }) < 0
}

func inLabel(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

// digestMark stands in the names that have a digest, and in no others.
const digestMark = "--"

// objectName is the name of the object of a key: PREFIX.KEY where that is a DNS name,
// and otherwise its readable part with a digest of both, so that no two keys have one
// name. A prefix with a dot gets a digest, too: a.b and c would have the name of a and b.c.
func objectName(prefix, key string) string {
	plain := prefix + "." + key
	if isDNSName(plain) && !strings.Contains(plain, digestMark) && !strings.Contains(prefix, ".") {
		return plain
	}
	sum := sha256.Sum256([]byte(prefix + " " + key)) // neither has a space
	return readable(plain) + digestMark + hex.EncodeToString(sum[:16])
}

// readable is a beginning of text in the characters of a DNS name.
func readable(text string) string {
	const most = 60
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(text) {
		if !inLabel(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
		if b.Len() >= most {
			break
		}
	}
	if b.Len() == 0 {
		return "key"
	}
	return b.String()
}

// keyOf is the key of an object of this prefix, "" if it is of none.
func (s *Store) keyOf(o record) string {
	key := o.Metadata.Annotations[keyAnnotation]
	if !lease.ValidKey(key) || objectName(s.prefix, key) != o.Metadata.Name {
		return ""
	}
	return key
}
