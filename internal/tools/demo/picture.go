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

const pictureStyle = `<style>
	text { font: 14px sans-serif; fill: #1f2328 }
	.small { font-size: 12px; fill: #59636e }
	.lane { stroke: #d1d9e0; stroke-width: 24 }
	.leads { stroke: #1a7f37; stroke-width: 24 }
	.fault { stroke: #cf222e; stroke-width: 2 }
	.what { fill: #cf222e }
	.token { font-size: 12px; fill: #ffffff }
</style>
<rect width="100%" height="100%" fill="#ffffff"/>
`

// picture draws, as SVG, when each candidate's command was alive.
func (s *stage) picture(end time.Duration) string {
	const left, top, lane, second, bottom = 80, 60, 50, 75, 50
	x := func(at time.Duration) int { return left + int((at-s.began).Seconds()*second) }
	width, height := x(end)+20, top+lane*len(s.candidates)+bottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>Three hosts, two faults: who leads, and when</title>\n%s", pictureStyle)
	fmt.Fprintf(&b, `<text x="10" y="24">leaderrun --key demo --ttl %s --wait forever -- COMMAND, on three hosts</text>`+"\n", ttl)
	for i, c := range s.candidates {
		y, until := top+lane*i+lane/2, end
		for _, f := range s.faults {
			if f.to == c && c.dead {
				until = f.at
			}
		}
		fmt.Fprintf(&b, `<text x="10" y="%d">%s</text><line class="lane" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", y+5, c.name, left, y, x(until), y)
		for _, life := range c.spans {
			fmt.Fprintf(&b, `<line class="leads" x1="%d" y1="%d" x2="%d" y2="%d"/><text class="token" x="%d" y="%d">leads</text>`+"\n",
				x(life.first), y, x(life.last), y, x(life.first)+6, y+4)
		}
		for _, f := range s.faults {
			if f.to == c {
				fmt.Fprintf(&b, `<line class="fault" x1="%d" y1="%d" x2="%d" y2="%d"/><text class="small what" x="%d" y="%d">%s</text>`+"\n",
					x(f.at), y-20, x(f.at), y+20, x(f.at)-4, y-22, f.what)
			}
		}
	}
	for n := 0; s.began+time.Duration(n)*time.Second < end; n++ {
		at := x(s.began + time.Duration(n)*time.Second)
		fmt.Fprintf(&b, `<text class="small" x="%d" y="%d">%d s</text>`+"\n", at, height-20, n)
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
