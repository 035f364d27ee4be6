package redis

import "strings"

// sent returns a script without comments and indents. With them the first request of a run
// would take one more round trip: it would be longer than the ten segments of 1,460 bytes
// that TCP sends before the first acknowledgement (RFC 6928). Lines keep their numbers, which
// Redis' errors name. No string of a script has two hyphens.
func sent(script string) string {
	var b strings.Builder
	b.Grow(len(script))
	for line := range strings.Lines(script) {
		code, _, _ := strings.Cut(line, "--")
		b.WriteString(strings.TrimSpace(code))
		b.WriteByte('\n')
	}
	return b.String()
}
