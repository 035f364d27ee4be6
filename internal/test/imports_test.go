package test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

const module = "github.com/leaderrun/leaderrun"

// std in a list stands for the whole standard library.
const std = "std"

// rule is one package and what its non-test files may import directly.
type rule struct {
	path  string // below the module
	only  []string
	never []string // exceptions from std
	why   string
}

// rules say what each package of the program may import: nothing of tests and tools, and of
// the program only what stands here. A package without a rule fails the test.
var rules = []rule{
	{path: ".", only: []string{"os", "cmd", "internal/early"},
		why: "main turns arguments into an exit status and nothing else"},
	{path: "cmd", only: []string{std, "internal/campaign", "internal/candidate", "internal/doctor", "internal/elect", "internal/lease", "internal/leasefile",
		"internal/observe", "internal/report", "internal/run", "internal/runner", "internal/settings", "internal/store/location",
		"github.com/google/renameio/v2", "github.com/spf13/cobra", "github.com/spf13/pflag"},
		why: "cmd words questions and answers; what a run is made of is the business of run"},
	{path: "internal/report", only: []string{std, "internal/candidate", "internal/elect", "internal/lease", "internal/observe", "internal/settings"},
		why: "it says what a store knows, and asks nobody"},
	{path: "internal/run", only: []string{std, "internal/campaign", "internal/candidate", "internal/elect", "internal/lease", "internal/leasefile", "internal/observe",
		"internal/runner", "internal/sender", "internal/settings", "internal/slots", "internal/store", "internal/store/location"},
		why: "it puts the parts of a run together; a store's client stays inside the store"},
	{path: "internal/slots", only: []string{"context", "strconv", "sync", "time", "internal/lease"},
		why: "it chooses among keys, and knows neither stores nor rules"},
	{path: "internal/settings", only: []string{std, "github.com/spf13/pflag", "github.com/spf13/viper", "go.yaml.in/yaml/v3", "golang.org/x/sys/unix",
		"internal/candidate", "internal/elect", "internal/lease", "internal/schedule", "internal/slots", "internal/store", "internal/store/location"},
		why: "it finds and checks what is said of a run, and does nothing with it"},
	{path: "internal/schedule", only: []string{std, "github.com/robfig/cron/v3", "internal/lease"},
		why: "instants are pure, and only the parser of cron expressions is another's"},
	{path: "internal/lease", only: []string{std},
		why: "everything imports the nouns, so they import nothing"},
	{path: "internal/lease/rules", only: []string{"cmp", "errors", "fmt", "slices", "strings", "time", "internal/lease"},
		why: "rules are pure: the stores keep the state, in their own ways"},
	{path: "internal/candidate", only: []string{"math", "time", "internal/lease"},
		why: "everybody who decides, carries out, reports or configures imports these nouns"},
	{path: "internal/elect", only: []string{"errors", "fmt", "slices", "strings", "time", "internal/candidate", "internal/lease"},
		why: "decisions are pure: no clock, no I/O, no goroutine"},
	{path: "internal/campaign", only: []string{std, "internal/candidate", "internal/elect", "internal/lease"},
		never: []string{"os/exec", "syscall", "net"},
		why:   "it acts through its interfaces, so tests run it in simulated time"},
	{path: "internal/proc", only: []string{"runtime", "syscall", "unsafe"}, why: early},
	{path: "internal/guard", only: []string{"syscall", "unsafe", "internal/proc", "internal/sender"}, why: early},
	{path: "internal/early", only: []string{"internal/guard"}, why: early},
	{path: "internal/runner", only: []string{std, "golang.org/x/sys/unix", "internal/guard", "internal/proc"},
		why: "it holds the command and knows nothing of leases"},
	{path: "internal/sender", only: []string{"sync/atomic", "syscall", "unsafe"},
		why: "it knows signals and nothing of what they mean"},
	{path: "internal/doctor", only: []string{std, "internal/elect", "internal/lease", "internal/runner"},
		why: "it does what a run does, on whatever store it is given"},
	{path: "internal/leasefile", only: []string{std, "internal/proc"},
		why: "it writes and reads one line, and decides nothing"},
	{path: "internal/observe", only: []string{std, "github.com/coreos/go-systemd/v22/daemon", "github.com/coreos/go-systemd/v22/journal",
		"golang.org/x/net/netutil", "golang.org/x/sys/unix",
		"internal/campaign", "internal/candidate", "internal/elect", "internal/lease"},
		why: "it reports what happened and never takes part"},
	{path: "internal/store", only: []string{"slices", "strings", "time", "internal/store/location", "internal/store/etcd", "internal/store/file", "internal/store/kubernetes", "internal/store/mysql", "internal/store/postgres", "internal/store/redis", "internal/store/s3"},
		why: "it lists the stores; what an address means is theirs"},
	{path: "internal/store/location", only: []string{std, "internal/lease"},
		why: "every store imports what all addresses have in common"},
	{path: "internal/store/file", only: []string{std, "github.com/fsnotify/fsnotify", "golang.org/x/sys/unix", "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location"}, why: oneStore},
	{path: "internal/store/redis", only: []string{std, "github.com/redis/go-redis/v9", "github.com/redis/go-redis/v9/maintnotifications", "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location", "internal/store/network"}, why: oneStore},
	{path: "internal/store/postgres", only: []string{std, "github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgproto3", "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location", "internal/store/network"}, why: oneStore},
	{path: "internal/store/mysql", only: []string{std, "github.com/go-sql-driver/mysql", "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location", "internal/store/network"}, why: oneStore},
	{path: "internal/store/etcd", only: []string{std, "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location", "internal/store/network"}, why: oneStore},
	{path: "internal/store/keep", only: []string{std, "internal/lease", "internal/lease/rules", "internal/store/network"},
		why: "it applies the rules to states that stores keep, and knows none of them"},
	{path: "internal/store/kubernetes", only: []string{std, "go.yaml.in/yaml/v3", "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location", "internal/store/network"}, why: oneStore},
	{path: "internal/store/s3", only: []string{std, "internal/lease", "internal/lease/rules", "internal/store/keep", "internal/store/location", "internal/store/network"}, why: oneStore},
	{path: "internal/store/network", only: []string{std, "golang.org/x/sys/unix", "internal/lease", "internal/store/location"},
		why: "it is what the stores share that are reached by a network, and knows none of them"},
}

const (
	early    = "the guard starts before the rest of the program is initialised; every import delays it"
	oneStore = "a store is one technology behind lease.Store and knows neither its users nor other stores"
)

// helps matches packages of tests and tools, which may import anything.
var helps = regexp.MustCompile(`^internal/(test|tools)(/|$)|test$`)

func TestImports(t *testing.T) {
	page := documents(t)["docs/design/architecture.md"]
	for _, pkg := range goPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(pkg.ImportPath, module), "/")
		if name == "" {
			name = "."
		}
		if name != "." && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/design/architecture.md does not name the job of %s", name)
		}
		if helps.MatchString(name) {
			continue
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return r.path == name })
		if i < 0 {
			t.Errorf("%s has no row in the table: say what it may import and why", name)
			continue
		}
		for _, imported := range pkg.Imports {
			if r := rules[i]; !r.allows(strings.TrimPrefix(imported, module+"/")) {
				t.Errorf("%s imports %s, it may import %s only: %s", name, imported, r.list(), r.why)
			}
		}
	}
}

func TestYAMLIsKnownToOneFile(t *testing.T) {
	for name, file := range parse(t, token.NewFileSet(), "internal/settings") {
		for _, spec := range file.Imports {
			if spec.Path.Value == `"go.yaml.in/yaml/v3"` && name != "file.go" {
				t.Errorf("internal/settings/%s imports YAML, file.go alone may: what a file of settings says is decided in one place", name)
			}
		}
	}
}

func TestElectHasNoClock(t *testing.T) {
	measures := []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
	for name, file := range parse(t, token.NewFileSet(), "internal/elect") {
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains(measures, sel.Sel.Name) {
					t.Errorf("internal/elect/%s uses time.%s, it may use durations only: every time comes with an event", name, sel.Sel.Name)
				}
			}
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("internal/elect/%s starts a goroutine at offset %d: a step is one call", name, g.Go)
			}
			return true
		})
	}
}

func (r rule) allows(imported string) bool {
	if slices.Contains(r.only, imported) {
		return true
	}
	// The first element of a path outside the standard library is a host name.
	first, _, _ := strings.Cut(imported, "/")
	standard := !strings.Contains(first, ".") && first != "internal" && first != "cmd"
	return standard && slices.Contains(r.only, std) && !slices.Contains(r.never, imported)
}

func (r rule) list() string {
	list := strings.Join(r.only, ", ")
	if len(r.never) > 0 {
		list += " without " + strings.Join(r.never, ", ")
	}
	return list
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

// goPackages lists the module as it is built for Linux, where the guard's rules
// apply.
func goPackages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	list.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg goPackage
		if err := d.Decode(&pkg); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, pkg)
	}
}

// parse returns the non-test files of a folder by name.
func parse(t *testing.T, set *token.FileSet, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(path.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s (%v)", dir, err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		must.Succeed(t, err)
		files[filepath.Base(name)] = file
	}
	return files
}
