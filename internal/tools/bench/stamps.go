//go:build linux

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// clock returns the time of the clock of all stamps.
func clock() time.Duration { return time.Duration(proc.Now()) }

// stamps is a file to which commands write when they started and ended. That wakes nobody
// during the measurement.
type stamps struct{ file *os.File }

// leg is one command's time.
type leg struct{ start, end time.Duration }

func (b *bench) newStamps(name string) (stamps, error) {
	f, err := os.OpenFile(filepath.Join(b.dir, name+".stamps"), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_RDWR, 0o600)
	return stamps{f}, err
}

// launch starts a command that writes a stamp, with args before it.
func (s stamps) launch(args ...string) (*child, error) {
	args = append(slices.Clip(args), "stamp")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = s.file
	return launch(cmd)
}

// legs returns n legs in the order of their starts.
func (s stamps) legs(n int) ([]leg, error) {
	if _, err := s.file.Seek(0, 0); err != nil {
		return nil, err
	}
	var all []leg
	for lines := bufio.NewScanner(s.file); lines.Scan(); {
		var l leg
		if _, err := fmt.Sscan(lines.Text(), &l.start, &l.end); err != nil {
			return nil, fmt.Errorf("stamp %q: %w", lines.Text(), err)
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b leg) int { return cmp.Compare(a.start, b.start) })
	if len(all) < n {
		return nil, fmt.Errorf("%d commands left a stamp, not %d", len(all), n)
	}
	return all[:n], nil
}
