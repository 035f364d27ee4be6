package settings

import (
	"cmp"
	"strings"
)

// Suggest returns the name that was probably meant by word: a similar one, else the only one
// that begins with word, or with which word begins. It returns "" if there is none.
func Suggest(word string, names []string) string {
	return cmp.Or(Similar(word, names), suggestLonger(word, names))
}

// Similar returns the name that is the fewest typing errors away from word: at most two, and at
// most half of its length. It returns "" if there is none.
func Similar(word string, names []string) string {
	best, least := "", min(3, len(word)/2+1)
	for _, name := range names {
		if len(word) >= len(name)+least { // cannot match: skip the work
			continue
		}
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// suggestLonger returns the only name that is the beginning of word, or that begins with
// it, in at least three characters: once for once-per, store-url for store.
func suggestLonger(word string, names []string) (only string) {
	const shortest = 3
	for _, name := range names {
		if min(len(word), len(name)) < shortest || !strings.HasPrefix(name, word) && !strings.HasPrefix(word, name) {
			continue
		}
		if only != "" {
			return ""
		}
		only = name
	}
	return only
}

// distance counts the insertions, deletions, replacements and swaps of neighbouring
// characters that turn a into b.
func distance(a, b string) int {
	// at[i][j] is the count for the first i characters of a and the first j of b.
	at := make([][]int, len(a)+1)
	for i := range at {
		at[i] = make([]int, len(b)+1)
		for j := range at[i] {
			switch {
			case i == 0 || j == 0:
				at[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				at[i][j] = at[i-1][j-1]
			default:
				at[i][j] = 1 + min(at[i-1][j-1], at[i-1][j], at[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				at[i][j] = min(at[i][j], 1+at[i-2][j-2])
			}
		}
	}
	return at[len(a)][len(b)]
}
