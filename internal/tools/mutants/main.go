// Mutants generates mutants of a package, wrong variants with one mistake each, and has
// tests judge them:
//
//	mutants [-sample N -seed S] [-match EXPRESSION] [-known FILE] [-alone] PACKAGE[:TESTS] [JUDGE...]
//
// The package's own tests come first, all or those that match the expression TESTS. Mutants
// that survive them go to each JUDGE, another PACKAGE[:TESTS]. A survivor is shown unless FILE
// lists it. Each line of FILE has a mutant in the form of this program's output, a tab, and
// the reason why no test can find it. The status is 1 if a survivor is not listed, if a listed
// mutant is killed, or if a listed mutant of this package is no longer generated. With several
// judges the report says how many mutants each of them killed, and which only the last one
// killed.
//
// A mistake is a wrong operator, a negated condition, a number that is one larger, or a
// missing statement. Mutants that do not compile do not count. With -alone each run has its
// own process namespace, for mutants that may kill other processes.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
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

// errSurvivors says that the list of survivors is wrong; the report has shown why.
var errSurvivors = errors.New("the list of survivors is not right")

// mutate tests variants of the first package.
func mutate(judges []string, match string, sample int, seed uint64, known string, t trial) error {
	name, _, _ := strings.Cut(judges[0], ":")
	p, err := readPackage(name)
	if err != nil {
		return err
	}
	reasons, err := readReasons(known)
	if err != nil {
		return err
	}
	all := variantsOf(p)
	stale := notMade(all, reasons)
	for _, listed := range stale {
		fmt.Println("listed as a survivor, but no such mutant is made:", listed)
	}
	variants, err := draw(all, match, sample, seed)
	if err != nil {
		return err
	}
	t.survived = func(v variant) {
		if reasons[v.String()] == "" {
			fmt.Printf("SURVIVED %s\t(line %d)\n", v, 1+bytes.Count(p.texts[v.path][:v.mistake.from], []byte("\n")))
		}
	}
	verdicts, err := t.all(p, variants, judges)
	if err != nil {
		return err
	}
	if !report(variants, verdicts, judges, reasons) || len(stale) > 0 {
		return errSurvivors
	}
	return nil
}

// notMade returns the listed mutants of this package that are no variants.
func notMade(all []variant, reasons map[string]string) (stale []string) {
	made := map[string]bool{}
	for _, v := range all {
		made[v.String()] = true
	}
	for _, listed := range slices.Sorted(maps.Keys(reasons)) {
		file, _, _ := strings.Cut(listed, " ")
		if path.Dir(file) == all[0].dir && !made[listed] {
			stale = append(stale, listed)
		}
	}
	return stale
}

// draw returns the variants that match, or a sample of them.
func draw(all []variant, match string, sample int, seed uint64) ([]variant, error) {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return nil, err
	}
	variants := slices.DeleteFunc(slices.Clone(all), func(v variant) bool { return !wanted.MatchString(v.String()) })
	if len(variants) == 0 {
		return nil, fmt.Errorf("%s has no mutants like %q", all[0].dir, match)
	}
	if sample > 0 && sample < len(variants) {
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
		variants = variants[:sample]
	}
	return variants, nil
}

// report prints what is wrong with the list, the counts, and, if there are several judges, the
// mutants that only the last one killed.
func report(variants []variant, verdicts []verdict, judges []string, reasons map[string]string) (ok bool) {
	ok = true
	count, unknown := map[verdict]int{}, 0
	for i, v := range variants {
		count[verdicts[i]]++
		switch listed := reasons[v.String()] != ""; {
		case verdicts[i] == survived && !listed:
			unknown++
			ok = false
		case verdicts[i] != survived && listed:
			fmt.Println("listed as a survivor, but killed:", v)
			ok = false
		}
		if last := len(judges) - 1; last > 0 && verdicts[i] == verdict(last) {
			fmt.Printf("only %s killed %s\n", judges[last], v)
		}
	}
	made := len(variants) - count[broken]
	fmt.Printf("%s: %d mutants, %d killed, %d survived and are listed, %d survived, %d did not compile\n",
		variants[0].dir, made, made-count[survived], count[survived]-unknown, unknown, count[broken])
	if len(judges) > 1 {
		for i, name := range judges {
			fmt.Printf("  %d by %s\n", count[verdict(i)], name)
		}
	}
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

// verdict is the number of the judge that killed a mutant, or one of these.
type verdict int

const (
	survived verdict = -1
	broken   verdict = -2
)
