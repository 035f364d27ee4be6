package lease

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// How much a [Status] contains at most, whatever stands in the store.
const (
	MaxValue = 256
	MaxMeta  = 4096
	MaxRuns  = 20
	// MaxCandidates is also how many a store keeps.
	MaxCandidates = 64
)

// ValidKey reports whether key has the form of one; stores keep nothing under
// any other.
func ValidKey(key string) bool {
	const most = 200 // so that the full name of a key stays far below every store's limit
	return made(key, func(r rune) bool { return inHost(r) || r == ':' || r == '/' }, 1, most)
}

// ValidRuns returns those of runs that a store can have filed, newest token first,
// and no more than MaxRuns of them.
func ValidRuns(runs []Run) []Run {
	filed := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool {
		return r.Token <= 0 || !r.Holder.Valid() || r.Host != r.Holder.Host()
	})
	slices.SortStableFunc(filed, func(a, b Run) int { return cmp.Compare(b.Token, a.Token) })
	return filed[:min(len(filed), MaxRuns)]
}

// ValidCandidates returns those that a store can have noted, the one that came last
// first, and no more than MaxCandidates of them.
func ValidCandidates(candidates []Candidate) []Candidate {
	noted := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool {
		return !made(c.Host, inHost, 1, maxHost) || c.First <= 0 || c.Last < c.First
	})
	slices.SortStableFunc(noted, func(a, b Candidate) int { return cmp.Compare(b.Last, a.Last) })
	return noted[:min(len(noted), MaxCandidates)]
}

// Cut returns at most so many bytes of a text that anybody may have written.
func Cut(text string, most int) string {
	return strings.Clone(text[:min(len(text), most)])
}

// Readable makes what a server said fit for a terminal and a log: one short line,
// and no password, which servers repeat when they do not know the command that it
// was sent with.
func Readable(text string, passwords ...string) string {
	const longest = 200
	for _, password := range passwords {
		if password != "" {
			text = strings.ReplaceAll(text, password, "***")
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "..."
	}
	return text
}
