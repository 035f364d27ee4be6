//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// variant is one way to run a command.
type variant struct {
	name string
	args []string // before the command
}

// start measures what one run costs.
func start(b *bench) error {
	lockFile := filepath.Join(b.dir, "start")
	leaderrun := []string{"leaderrun", "--key", "start", "--"}
	variants := []variant{
		{"direct", nil},
		{"flock", []string{"flock", lockFile}},
		{"leaderrun", leaderrun},
		{"leaderrun --wait", []string{"leaderrun", "--wait", "1s", "--key", "start", "--"}},
		{"leaderrun, file store", []string{"leaderrun", "--store", "file:" + filepath.Join(b.dir, "store"), "--key", "start", "--"}},
	}
	err := compare("from exec to the first byte that echo writes, ms", variants, b.rounds, func(v variant) (time.Duration, error) {
		return firstByte(append(v.args, "echo", "x"))
	})
	if err != nil {
		return err
	}
	err = compare("wall time of true, ms", variants, b.rounds, func(v variant) (time.Duration, error) {
		return wall(append(v.args, "true"))
	})
	if err != nil {
		return err
	}
	err = compare("1 GB through stdout, ms", variants[:3], max(3, b.rounds/40), func(v variant) (time.Duration, error) {
		return wall(append(v.args, "head", "-c", "1000000000", "/dev/zero"))
	})
	if err != nil {
		return err
	}

	holder, err := hold(append(leaderrun, "flock", lockFile))
	if err != nil {
		return err
	}
	defer end(holder)
	standby, err := launch(exec.Command("leaderrun", "--wait", "forever", "--key", "start", "--", "true"))
	if err != nil {
		return err
	}
	defer end(standby)
	if err := b.redis.awaitStandbys(1); err != nil {
		return err
	}
	err = compare("skip: somebody else leads, ms", []variant{
		{"flock -n", []string{"flock", "-n", "-E", "0", lockFile}},
		{"leaderrun", leaderrun},
	}, b.rounds, func(v variant) (time.Duration, error) { return wall(append(v.args, "true")) })
	if err != nil {
		return err
	}
	fmt.Printf("  memory, PSS in MB: elector and guard of the holder %.1f, of a standby %.1f\n", pss(holder), pss(standby))
	return nil
}

// compare lets the variants take turns and prints medians, and their ratios to the first
// variant and, if there is one, to flock.
func compare(what string, variants []variant, rounds int, measure func(variant) (time.Duration, error)) error {
	took := make([][]float64, len(variants))
	for round := range rounds + 3 {
		for i, v := range variants {
			d, err := measure(v)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			if round >= 3 { // the first ones warm up
				took[i] = append(took[i], ms(d))
			}
		}
	}
	fmt.Println("  " + what)
	base := 0
	for i, v := range variants {
		if strings.HasPrefix(v.name, "flock") {
			base = i
		}
	}
	for i, v := range variants {
		ratios := make([]float64, rounds)
		for r := range ratios {
			ratios[r] = took[i][r] / took[base][r]
		}
		fmt.Printf("    %-22s %s   × %s %.2f\n", v.name, summary(took[i]), variants[base].name, at(ratios, 0.5))
	}
	return nil
}

func wall(args []string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	begin := time.Now()
	err := cmd.Run()
	return time.Since(begin), err
}

// firstByte returns the time until the command has written something.
func firstByte(args []string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	took := time.Since(begin)
	if ended := cmd.Wait(); ended != nil {
		err = ended
	}
	return took, err
}

// guardOf returns the guard of an elector, which has no other child.
func guardOf(elector *child) []int {
	children, _ := proc.ChildrenOf(elector.pid())
	return slices.Clip(children[:min(1, len(children))])
}

// pss returns the sum of the proportional set sizes of an elector and its guard, in MB.
func pss(elector *child) float64 {
	var sum float64
	for _, pid := range append(guardOf(elector), elector.pid()) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var kib float64
			if n, _ := fmt.Sscanf(lines.Text(), "Pss: %f kB", &kib); n == 1 {
				sum += kib * 1024 / 1e6
			}
		}
		f.Close()
	}
	return sum
}
