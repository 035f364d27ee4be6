package lease

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
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
	for i := range filed {
		if !made(filed[i].Outcome, inHost, 1, maxHost) {
			filed[i].Outcome = ""
		}
	}
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
// was sent with. Only a whole word is a password: a masked part of a word would tell it.
func Readable(text string, passwords ...string) string {
	const longest = 200
	for _, password := range passwords {
		if password != "" {
			text = maskWord(text, password)
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

// innocent are what real servers say about logins. A masked word of it, or of what follows it, the
// name of a user or a database, would tell the password.
var innocent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)invalid username-password pair or user is disabled|AUTH <password> called without any password configured|` +
		`Client sent AUTH, but no password is set|authentication failed, invalid user ID or password|invalid password|` +
		`(password authentication failed for|access denied for|no such) user ['"][^'"]*['"](@'[^']*')?( \(using password: \w+\))?|(user|role|database) ['"][^'"]*['"]`)
})

// maskWord replaces a word where it is neither a part of a longer one nor innocent.
func maskWord(text, word string) string {
	if !strings.Contains(text, word) {
		return text
	}
	var b strings.Builder
	kept := innocent().FindAllStringIndex(text, -1)
	rest := 0 // where what is not written yet begins
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return b.String() + text[rest:]
		}
		begin, end := at+i, at+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:begin])
		after, _ := utf8.DecodeRuneInString(text[end:])
		isKept := slices.ContainsFunc(kept, func(k []int) bool { return k[0] <= begin && end <= k[1] })
		if isKept || inWord(before) || inWord(after) {
			_, size := utf8.DecodeRuneInString(text[begin:])
			at = begin + size
			continue
		}
		b.WriteString(text[rest:begin] + "***")
		at, rest = end, end
	}
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
