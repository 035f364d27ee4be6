//go:build linux

// Benchmark measures what leaderrun costs beside flock(1) and a direct run of
// the same command: all variants take turns in one run, so that a machine whose
// speed drifts treats them alike. scripts/bench builds and starts it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

func main() {
	rounds := flag.Int("rounds", 200, "runs of each variant")
	flag.Parse()
	if err := run(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// variant is one way to run a command.
type variant struct {
	name string
	args []string // before the command
}

func run(rounds int) error {
	dir, err := os.MkdirTemp("", "benchmark")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stop, address, err := startRedis(dir)
	if err != nil {
		return err
	}
	defer stop()
	if err := os.Setenv("LEADERRUN_STORE", address); err != nil {
		return err
	}

	leaderrun := []string{"leaderrun", "--key", "bench", "--"}
	variants := []variant{
		{"direct", nil},
		{"flock", []string{"flock", filepath.Join(dir, "flock")}},
		{"leaderrun", leaderrun},
		{"leaderrun --wait", []string{"leaderrun", "--wait", "1s", "--key", "bench", "--"}},
		{"leaderrun, file store", []string{"leaderrun", "--store", "file:" + filepath.Join(dir, "store"), "--key", "bench", "--"}},
	}
	compare("start: from exec to the first byte that echo writes, ms", variants, rounds, func(v variant) time.Duration {
		return firstByte(append(v.args, "echo", "x"))
	})
	compare("wall time of true, ms", variants, rounds, func(v variant) time.Duration {
		return wall(append(v.args, "true"))
	})
	compare("1 GB through stdout, ms", variants[:3], max(3, rounds/40), func(v variant) time.Duration {
		return wall(append(v.args, "head", "-c", "1000000000", "/dev/zero"))
	})

	holder := exec.Command(leaderrun[0], append(leaderrun[1:], "flock", filepath.Join(dir, "flock"), "sleep", "600")...)
	standby := exec.Command("leaderrun", "--wait", "forever", "--key", "bench", "--", "true")
	for _, c := range []*exec.Cmd{holder, standby} {
		if err := c.Start(); err != nil {
			return err
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
		time.Sleep(time.Second) // until it has settled
	}
	compare("skip: somebody else leads, ms", []variant{
		{"flock -n", []string{"flock", "-n", filepath.Join(dir, "flock")}},
		{"leaderrun", leaderrun},
	}, rounds, func(v variant) time.Duration { return wall(append(v.args, "true")) })
	fmt.Printf("memory, PSS in MB: elector and guard of the holder %.1f, of a standby %.1f\n", pss(holder), pss(standby))
	return nil
}

// compare lets the variants take turns and prints medians, and their ratios to
// the first and, where there is one, to flock.
func compare(what string, variants []variant, rounds int, measure func(variant) time.Duration) {
	took := make([][]float64, len(variants))
	for round := range rounds + 3 {
		for i, v := range variants {
			ms := measure(v).Seconds() * 1000
			if round >= 3 { // the first ones warm up
				took[i] = append(took[i], ms)
			}
		}
	}
	fmt.Println(what)
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
		fmt.Printf("  %-22s median %7.2f   p90 %7.2f   × %s %.2f\n", v.name, at(took[i], 0.5), at(took[i], 0.9), variants[base].name, at(ratios, 0.5))
	}
}

func at(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func wall(args []string) time.Duration {
	cmd := exec.Command(args[0], args[1:]...)
	begin := time.Now()
	_ = cmd.Run() // a skip by flock -n is no success
	return time.Since(begin)
}

// firstByte is the time until the command has written something.
func firstByte(args []string) time.Duration {
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	_, _ = io.ReadFull(out, make([]byte, 1))
	took := time.Since(begin)
	_ = cmd.Wait()
	return took
}

// pss adds up the proportional set sizes of an elector and its guard, in MB.
func pss(elector *exec.Cmd) float64 {
	var sum float64
	for _, pid := range append(proc.ChildrenOf(elector.Process.Pid)[:1:1], elector.Process.Pid) {
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

// startRedis starts a server on a free port of loopback.
func startRedis(dir string) (stop func(), address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	host := l.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	l.Close()
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err := server.Start(); err != nil {
		return nil, "", err
	}
	for range 200 {
		if c, err := net.Dial("tcp", host); err == nil {
			c.Close()
			return func() { _ = server.Process.Kill(); _ = server.Wait() }, "redis://" + host, nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	_ = server.Process.Kill()
	return nil, "", fmt.Errorf("redis-server does not answer at %s", host)
}
