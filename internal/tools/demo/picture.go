//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// fault is a fault of a candidate and its time.
type fault struct {
	to   *candidate
	at   time.Duration
	what string
}

// The picture stays readable at the width of a phone, and where pages are dark.
const pictureStyle = `<style>
	text { font: 15px sans-serif; fill: #1f2328 }
	.back { fill: #ffffff }
	.small { font-size: 13px; fill: #59636e }
	.lane { stroke: #d1d9e0; stroke-width: 24 }
	.leads { stroke: #1a7f37; stroke-width: 24 }
	.fault { stroke: #cf222e; stroke-width: 2 }
	.ttl { stroke: #9a6700; stroke-width: 3 }
	.what { fill: #cf222e }
	@media (prefers-color-scheme: dark) {
		text { fill: #f0f6fc }
		.back { fill: #0d1117 }
		.small { fill: #9198a1 }
		.lane { stroke: #3d444d }
		.leads { stroke: #3fb950 }
		.fault { stroke: #f85149 }
		.ttl { stroke: #d29922 }
		.what { fill: #f85149 }
	}
</style>
<rect class="back" width="100%" height="100%"/>
`

// picture draws, as SVG, when each candidate's command was alive.
func (s *stage) picture(end time.Duration) string {
	const left, top, lane, second, bottom = 70, 90, 60, 38, 40
	x := func(at time.Duration) int { return left + int((at-s.began).Seconds()*second) }
	width, height := x(end)+20, top+lane*len(s.candidates)+bottom
	var b strings.Builder
	line := func(class string, from, to time.Duration, y1, y2 int) {
		fmt.Fprintf(&b, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", class, x(from), y1, x(to), y2)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>Three hosts, two faults: who leads, and when</title>\n%s", pictureStyle)
	fmt.Fprintf(&b, `<text x="10" y="24">leaderrun --key demo --ttl %s --wait forever -- COMMAND</text>`+"\n", ttl)
	for n, entry := range []struct{ class, what string }{{"leads", "leads"}, {"lane", "stands by"}, {"fault", "fault"}, {"ttl", "a TTL from it"}} {
		const y, wide = 48, 120
		fmt.Fprintf(&b, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/><text class="small" x="%d" y="%d">%s</text>`+"\n",
			entry.class+`" style="stroke-width: 6`, 10+n*wide, y, 32+n*wide, y, 38+n*wide, y+4, entry.what)
	}
	for i, c := range s.candidates {
		y, until := top+lane*i+lane/2, end
		for _, f := range s.faults {
			if f.to == c && c.dead {
				until = f.at
			}
		}
		fmt.Fprintf(&b, `<text x="10" y="%d">%s</text>`+"\n", y+5, c.name)
		line("lane", s.began, until, y, y)
		for _, life := range c.spans {
			line("leads", life.first, life.last, y, y)
		}
		for _, f := range s.faults {
			if f.to == c {
				line("fault", f.at, f.at, y-18, y+18)
				line("ttl", f.at, f.at+ttl, y+18, y+18)
				fmt.Fprintf(&b, `<text class="small what" x="%d" y="%d">%s</text>`+"\n", x(f.at)-4, y-21, f.what)
			}
		}
	}
	for n := 0; s.began+time.Duration(n)*time.Second < end; n += 2 {
		at := x(s.began + time.Duration(n)*time.Second)
		fmt.Fprintf(&b, `<text class="small" x="%d" y="%d">%d s</text>`+"\n", at, height-14, n)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// writePicture draws into a file, if its name is not "".
func (s *stage) writePicture(file string, end time.Duration) error {
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte(s.picture(end)), 0o644)
}
