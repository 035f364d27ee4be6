package cmd

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/report"
)

// docs/durations.md shows the output of explain: as a picture, and for some TTLs.
func TestDurationsPage(t *testing.T) {
	for file, want := range map[string]func(string) string{
		"../docs/durations.svg": func(string) string { return timelinePicture(report.TimelineOf(configured(t, ""))) },
		"../docs/durations.md": func(page string) string {
			rows := regexp.MustCompile(`(?m)^\| (\S+) \|.*\n`)
			return rows.ReplaceAllStringFunc(page, func(row string) string {
				ttl := rows.FindStringSubmatch(row)[1]
				if _, err := time.ParseDuration(ttl); err != nil {
					return row
				}
				return durationsRow(report.TimelineOf(configured(t, "ttl="+ttl)), ttl)
			})
		},
	} {
		text, err := os.ReadFile(file)
		if err != nil && !*update {
			t.Fatal(err)
		}
		now := want(string(text))
		if now == string(text) {
			continue
		}
		if !*update {
			t.Errorf("%s is not what explain says (-update writes it anew)\n%s", file, now)
		} else if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func durationsRow(line report.Timeline, ttl string) string {
	at := map[string]string{}
	for _, e := range line {
		at[e.Name] = lease.Span(e.At)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", ttl, at["renew"], at["stop_by"], at["kill_by"], at["outage"], at["failover"])
}

// timelinePicture draws the timeline of a lease whose renewals get no answer.
func timelinePicture(line report.Timeline) string {
	const left, axis, second, height = 10, 90, 17, 250
	x := func(at time.Duration) int { return left + int(at.Seconds()*second) }
	at := map[string]time.Duration{}
	for _, e := range line {
		at[e.Name] = e.At
	}
	var b strings.Builder
	width := x(at["expiry"]) + 20
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>A lease of %s whose renewals are not answered</title>
<style>
	text { font: 15px sans-serif; fill: #1f2328 }
	.back { fill: #ffffff }
	.small { font-size: 14px; fill: #59636e }
	.point { stroke: #1f2328 }
	.part { fill: #ffffff }
	@media (prefers-color-scheme: dark) {
		text { fill: #f0f6fc }
		.back { fill: #0d1117 }
		.small { fill: #9198a1 }
		.point { stroke: #f0f6fc }
	}
</style>
<rect class="back" width="100%%" height="100%%"/>
<text x="%d" y="24">--ttl %s: the last renewal that was answered was sent at 0</text>
`, width, height, width, height, lease.FormatDuration(at["expiry"]), left, lease.FormatDuration(at["expiry"]))
	for _, part := range []struct{ from, to, color, what string }{
		{"", "stop_by", "#1a7f37", "the command runs"},
		{"stop_by", "kill_by", "#bf8700", "it is stopped"},
		{"kill_by", "valid_until", "#cf222e", ""},
		{"valid_until", "expiry", "#59636e", ""},
	} {
		from, to := x(at[part.from]), x(at[part.to])
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="26" fill="%s"/><text x="%d" y="%d" class="part">%s</text>`+"\n",
			from, axis-26, to-from, part.color, from+6, axis-8, part.what)
	}
	for i, e := range line[:report.Points] {
		y := axis + 24 + 26*i
		fmt.Fprintf(&b, `<line class="point" x1="%d" y1="%d" x2="%d" y2="%d"/><text x="%d" y="%d" text-anchor="end">%s <tspan class="small">%s</tspan></text>`+"\n",
			x(e.At), axis, x(e.At), y, x(e.At)-5, y, e.What, lease.Span(e.At))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
