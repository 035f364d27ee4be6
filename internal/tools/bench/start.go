//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// variant is one way to run a command.
type variant struct {
	name string
	args []string // before the command
}

// inShell is what people write instead of a run: no renewal, and nothing that stops the command.
const inShell = `token=$$.$(date +%s)
[ "$(redis-cli -p $PORT SET shell:$KEY $token NX PX 30000)" = OK ] || exit 0
"$@"
redis-cli -p $PORT EVAL 'return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1])' 1 shell:$KEY $token >/dev/null`

// redisCli runs a command in inShell, under a key of its own.
func (b *bench) redisCli(key string) variant {
	return variant{"redis-cli in a shell", []string{"env", fmt.Sprint("PORT=", b.redis.Port), "KEY=" + key, "sh", "-c", inShell, "sh"}}
}

// start measures what one run costs.
func start(b *bench) {
	variants := []variant{
		{"direct", nil},
		{"flock", []string{"flock", filepath.Join(b.dir, "start")}},
		{"leaderrun", []string{"leaderrun", "--key", "start", "--"}},
		{"leaderrun --wait", []string{"leaderrun", "--wait", "1s", "--key", "start", "--"}},
		{"leaderrun, file store", []string{"leaderrun", "--store", "file:" + filepath.Join(b.dir, "store"), "--key", "start", "--"}},
		b.redisCli("start"),
	}
	b.compare("from exec to the first byte that echo writes, ms", variants, true, "echo", "x")
	b.compare("wall time of true, ms", variants, false, "true")
}

// skip measures a run that finds a leader.
func skip(b *bench) {
	lockFile := filepath.Join(b.dir, "skip")
	leaderrun := []string{"leaderrun", "--key", "skip", "--"}
	holder := hold(append(leaderrun, "flock", lockFile))
	defer holder.end()
	standby := launch(exec.Command("leaderrun", "--wait", "forever", "--key", "skip", "--", "true"))
	defer standby.end()
	b.redis.awaitListeners(2)
	held := hold(b.redisCli("skip").args)
	defer held.end()
	b.compare("wall time of a skip, ms", []variant{
		{"flock -n", []string{"flock", "-n", "-E", "0", lockFile}},
		{"leaderrun", leaderrun},
		b.redisCli("skip"),
	}, false, "true")
	fmt.Printf("  memory, PSS in MB: elector and guard of the holder %.1f, of a standby on the same host %.1f\n", holder.pss(), standby.pss())
}

// compare lets the variants take turns with a command, and prints medians, and the median of
// the ratios to flock.
func (b *bench) compare(what string, variants []variant, firstByte bool, command ...string) {
	const warm = 3
	took := make([][]float64, len(variants))
	for round := range warm + b.rounds {
		for i, v := range variants {
			d := measure(append(v.args[:len(v.args):len(v.args)], command...), firstByte)
			if round >= warm {
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
		ratios := make([]float64, b.rounds)
		for r := range ratios {
			ratios[r] = took[i][r] / took[base][r]
		}
		fmt.Printf("    %-22s %s   × flock %.2f\n", v.name, summary(took[i]), at(ratios, 0.5))
	}
}

// measure returns how long a program takes, in all or until its command has written something.
func measure(args []string, firstByte bool) (took time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), must.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.Check(err)
	begin := time.Now()
	must.Check(cmd.Start())
	if firstByte {
		_, err = out.Read(make([]byte, 1))
		took = time.Since(begin)
		must.Check(err)
	}
	must.Check(cmd.Wait())
	if firstByte {
		return took
	}
	return time.Since(begin)
}
