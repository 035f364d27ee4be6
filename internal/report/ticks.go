package report

import (
	"bytes"
	"fmt"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// WriteTicks tells which runs start, if the settings have ticks or a minimum hold. now is any time, in
// milliseconds.
func WriteTicks(b *bytes.Buffer, c settings.Config, now int64) {
	var rows [][]string
	add := func(what, value, meaning string) { rows = append(rows, []string{"  " + what, value, meaning}) }
	switch {
	case c.Tick != 0:
		add("tick", lease.Instant(c.Tick), "the run is for this time, whenever it comes; once it succeeded, or a newer one started, it is skipped")
	case c.Schedule != nil:
		tick := c.Schedule.Tick(now)
		add("tick", lease.Instant(tick.At), "a run that came now would be for this time; it is skipped if that has had a success")
		add("next", lease.Instant(tick.At+tick.Period.Milliseconds()), "runs from "+lease.Instant(tick.Until)+" on are for this time: clocks of hosts may be ahead")
	case c.OncePer != 0:
		add("period", lease.FormatDuration(c.OncePer), "one run succeeds per period")
		add("served", lease.Span(c.OncePer/2), "a run that comes less than this after the tick that had a success is skipped: hosts may be so far apart")
	}
	if rows != nil {
		wait := "0s"
		meaning := "hosts that come while another runs the job are skipped: nobody runs it again if it fails"
		if c.Wait > 0 {
			wait, meaning = lease.FormatDuration(c.Wait), "the other hosts stand by for this long and run the job if the run before fails or its host dies"
			if c.Wait == candidate.Forever {
				meaning = "the other hosts stand by and run the job if the run before fails or its host dies"
			}
		}
		add("wait", wait, meaning)
		add("tries", fmt.Sprint(c.Tries), "starts per tick at most, on all hosts together, crashes included")
	}
	if c.MinHold > 0 {
		add("min hold", lease.FormatDuration(c.MinHold), "the key stays taken for this long from the start, also if the command ends sooner: late hosts are skipped")
	}
	if rows != nil {
		b.WriteString("\nwhich runs start\n")
		WriteTable(b, rows)
	}
}
