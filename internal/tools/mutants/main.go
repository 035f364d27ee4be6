// Mutants makes wrong variants of a package, one mistake each, and has tests judge
// them:
//
//	mutants [-sample N -seed S] [-match EXPRESSION] [-known FILE] [-alone] PACKAGE[:TESTS] [JUDGE...]
//
// The package's own tests come first, all of them or those that match the expression
// TESTS; what they let live goes to each JUDGE, another PACKAGE[:TESTS]. A survivor is
// shown unless FILE lists it with a reason: each line there is a variant as it is shown
// here, a tab and why no test can see it. The status is 1 if a survivor is not listed, and
// in a run of all variants also if a listed one no longer survives.
//
// A mistake is an operator that is another one, a condition that is turned round, a
// number that is one more, or a statement that is missing, in Go or in a Lua script that the
// package embeds (-match '\.lua '). What does not compile does not count. With -alone each run is in a process namespace of its own, for mistakes that
// kill what they should not.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	sample := flag.Int("sample", 0, "how many variants, drawn by chance; 0 is all")
	seed := flag.Uint64("seed", 1, "what they are drawn by")
	match := flag.String("match", "", "only variants whose names match this regular expression")
	known := flag.String("known", "", "file of the survivors that are known, with reasons")
	workers := flag.Int("workers", 2, "how many variants are tested at once")
	alone := flag.Bool("alone", false, "run the tests in process namespaces of their own")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := mutate(flag.Args(), *match, *sample, *seed, *known, trial{workers: *workers, alone: *alone}); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(map[bool]int{true: 1, false: 2}[errors.Is(err, errSurvivors)])
	}
}

// errSurvivors is what the report has shown.
var errSurvivors = errors.New("the list of survivors is not right")

// mutate tests variants of the first package.
func mutate(judges []string, match string, sample int, seed uint64, known string, t trial) error {
	name, _, _ := strings.Cut(judges[0], ":")
	p, err := readPackage(name)
	if err != nil {
		return err
	}
	variants, err := draw(p, match, sample, seed)
	if err != nil {
		return err
	}
	reasons, err := readReasons(known)
	if err != nil {
		return err
	}
	t.survived = func(v variant) {
		if reasons[v.String()] == "" {
			fmt.Println("SURVIVED", v)
		}
	}
	verdicts, err := t.all(p, variants, judges)
	if err != nil {
		return err
	}
	if !report(variants, verdicts, reasons, sample == 0, regexp.MustCompile(match)) {
		return errSurvivors
	}
	return nil
}

// draw returns the variants of the package that match, or a sample of them.
func draw(p *source, match string, sample int, seed uint64) ([]variant, error) {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return nil, err
	}
	variants := slices.DeleteFunc(variantsOf(p), func(v variant) bool { return !wanted.MatchString(v.String()) })
	if len(variants) == 0 {
		return nil, fmt.Errorf("%s has no variants like %q", p.ImportPath, match)
	}
	if sample > 0 && sample < len(variants) {
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
		variants = variants[:sample]
	}
	return variants, nil
}

// report prints the listed variants that have not survived, and the counts.
func report(variants []variant, verdicts []verdict, reasons map[string]string, all bool, match *regexp.Regexp) (ok bool) {
	count := map[verdict]int{}
	unknown, seen := 0, map[string]bool{}
	for i, v := range variants {
		count[verdicts[i]]++
		if verdicts[i] != survived {
			continue
		}
		seen[v.String()] = true
		if reasons[v.String()] == "" {
			unknown++
		}
	}
	ok = unknown == 0
	for _, listed := range slices.Sorted(maps.Keys(reasons)) {
		if all && strings.HasPrefix(listed, variants[0].dir+"/") && match.MatchString(listed) && !seen[listed] {
			fmt.Println("listed as a survivor, but caught or not made:", listed)
			ok = false
		}
	}
	fmt.Printf("%s: %d variants, %d caught, %d survived and are known, %d survived, %d did not compile\n",
		variants[0].dir, count[caught]+count[survived], count[caught], count[survived]-unknown, unknown, count[broken])
	return ok
}

func readReasons(file string) (map[string]string, error) {
	reasons := map[string]string{}
	if file == "" {
		return reasons, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") || lines.Text() == "" {
			continue
		}
		what, why, found := strings.Cut(lines.Text(), "\t")
		if !found || why == "" {
			return nil, fmt.Errorf("%s: no reason: %s", file, lines.Text())
		}
		reasons[what] = why
	}
	return reasons, lines.Err()
}

type verdict int

const (
	caught verdict = iota
	survived
	broken
)
