package redis

import "strings"

// sent returns a script as it is sent: without comments and indents, each line
// where it was, for Redis' errors name lines. With them the first request of a run is
// longer than what TCP sends before the first acknowledgement, ten segments of
// 1,460 bytes (RFC 6928), and so takes a round trip more. No string of a script has
// two hyphens.
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
