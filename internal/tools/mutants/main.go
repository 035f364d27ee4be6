// Mutants makes wrong variants of a package, one mistake each, and has tests judge
// them:
//
//	mutants [-sample N -seed S] [-match EXPRESSION] [-known FILE] PACKAGE [JUDGE...]
//
// The package's own tests come first; what they let live goes to the tests of each
// JUDGE, a package. A survivor is shown unless FILE lists it with a reason: each line
// there is a variant as it is shown here, a tab and why no test can see it. The status
// is 1 if a survivor is not listed, and in a run of all variants also if a listed one
// no longer survives.
//
// A mistake is an operator that is another one, a condition that is turned round, a
// number that is one more, or a statement that is missing. What does not compile does
// not count.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

func main() {
	sample := flag.Int("sample", 0, "how many variants, drawn by chance; 0 is all")
	seed := flag.Uint64("seed", 1, "what they are drawn by")
	match := flag.String("match", "", "only variants whose names match this regular expression")
	known := flag.String("known", "", "file of the survivors that are known, with reasons")
	workers := flag.Int("workers", 2, "how many variants are tested at once")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	variants, err := draw(flag.Arg(0), *match, *sample, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	all := *sample == 0 && *match == ""
	ok, err := judge(variants, flag.Args(), *known, all, *workers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// draw returns the variants of the package that match, or a sample of them.
func draw(name, match string, sample int, seed uint64) ([]variant, error) {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return nil, err
	}
	variants, err := variantsOf(name)
	if err != nil {
		return nil, err
	}
	variants = slices.DeleteFunc(variants, func(v variant) bool { return !wanted.MatchString(v.String()) })
	if len(variants) == 0 {
		return nil, fmt.Errorf("%s has no variants like %q", name, match)
	}
	if sample > 0 && sample < len(variants) {
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
		variants = variants[:sample]
	}
	return variants, nil
}

// judge tests the variants and reports whether all survivors are known and, if these
// are all variants, all that is known survived.
func judge(variants []variant, judges []string, known string, all bool, workers int) (ok bool, err error) {
	reasons, err := readReasons(known)
	if err != nil {
		return false, err
	}
	verdicts, err := testAll(variants, judges, workers)
	if err != nil {
		return false, err
	}
	return report(variants, verdicts, reasons, all), nil
}

// report shows the survivors that have no reason, and the reasons that have no survivor.
func report(variants []variant, verdicts []verdict, reasons map[string]string, all bool) (ok bool) {
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
			fmt.Println("SURVIVED", v)
		}
	}
	ok = unknown == 0
	for _, listed := range slices.Sorted(maps.Keys(reasons)) {
		if all && strings.HasPrefix(listed, variants[0].dir+"/") && !seen[listed] {
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

// testAll tests the variants, several at once. It returns the verdicts in their order.
func testAll(variants []variant, judges []string, workers int) ([]verdict, error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	verdicts, errs := make([]verdict, len(variants)), make([]error, len(variants))
	next := make(chan int)
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for i := range next {
				verdicts[i], errs[i] = test(variants[i], judges, filepath.Join(dir, fmt.Sprint(i)))
			}
		})
	}
	for i := range variants {
		next <- i
	}
	close(next)
	done.Wait()
	return verdicts, errors.Join(errs...)
}

// test compiles the judges with the variant in the place of its file.
func test(v variant, judges []string, scratch string) (verdict, error) {
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{v.path: scratch + ".go"}})
	if err != nil {
		return broken, err
	}
	if err := errors.Join(os.WriteFile(scratch+".go", v.text, 0o600), os.WriteFile(scratch+".json", overlay, 0o600)); err != nil {
		return broken, err
	}
	for _, judge := range judges {
		out, err := exec.Command("go", "test", "-overlay", scratch+".json", "-vet=off", "-failfast", "-timeout", "2m", judge).CombinedOutput()
		switch {
		case err == nil:
		case strings.Contains(string(out), "[build failed]"):
			return broken, nil
		default:
			return caught, nil
		}
	}
	return survived, nil
}
