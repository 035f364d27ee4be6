//go:build linux

package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// try is one documented command on its own host: a temporary root directory with leaderrun in
// /usr/bin and /usr/local/bin, and an empty Redis as the store, whatever its name in the
// document.
type try struct {
	*testing.T
	*shown
	root   string
	server *script.RedisServer // nil until it is used
}

func newTry(t *testing.T, c *shown, root string) *try {
	for _, p := range c.pages {
		t.Log("shown in", p.name)
	}
	try := &try{T: t, shown: c, root: root}
	for _, dir := range []string{"/tmp", "/var/lib"} {
		must.Succeed(t, os.MkdirAll(root+dir, 0o700))
	}
	leaderrun, err := exec.LookPath("leaderrun")
	must.Succeed(t, err)
	try.file("usr/bin/leaderrun", "#!/bin/sh\nexec "+leaderrun+` "$@"`)
	try.file("usr/local/bin/leaderrun", "#!/bin/sh\nexec "+leaderrun+` "$@"`)
	try.file("bin/sudo", "#!/bin/sh\nif [ \"$1\" = -u ]; then shift 2; fi\nexec \"$@\"")
	return try
}

// file makes a file on that host, usually a program.
func (try *try) file(name, text string) {
	try.Helper()
	name = filepath.Join(try.root, name)
	must.Succeed(try, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(try, os.WriteFile(name, []byte(text), 0o700))
}

func (try *try) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(try.root, name)) // missing is as good as empty
	return string(text)
}

// redis is the store of that host.
func (try *try) redis() *script.RedisServer {
	try.Helper()
	if try.server == nil {
		try.server = script.StartRedis(try.T, "--appendonly", "yes")
	}
	return try.server
}

// running is a running shell command and its output.
type running struct {
	*exec.Cmd
	file string
}

func (r *running) said() string {
	text, _ := os.ReadFile(r.file) // it is there
	return string(text)
}

// start starts a line on that host.
func (try *try) start(line string) *running {
	try.Helper()
	line = regexp.MustCompile(`(^|[ :>])/(\w)`).ReplaceAllString(line, "${1}"+try.root+"/$2")
	line = strings.NewReplacer("redis://redis.internal:6379", "redis://"+try.redis().Addr, "[$(POD_IP)]:9090", "[::1]:0").Replace(line)
	out, err := os.CreateTemp(try.root, "out-")
	must.Succeed(try, err)
	defer out.Close()
	r := &running{exec.Command("sh", "-c", line), out.Name()}
	r.Dir = try.root
	r.Env = append(os.Environ(), "PATH="+filepath.Join(try.root, "bin")+":"+os.Getenv("PATH"),
		"XDG_CONFIG_HOME="+try.root, "XDG_RUNTIME_DIR="+try.root, "LEADERRUN_STORE=redis://"+try.redis().Addr)
	r.Stdout, r.Stderr = out, out
	must.Succeed(try, r.Start())
	try.Cleanup(func() { _ = r.Process.Kill() }) // it has ended, as a rule
	return r
}

// run returns the output of a line and its status.
func (try *try) run(line string) (string, int) {
	try.Helper()
	r := try.start(line)
	code := status(try.T, r.Cmd)
	return r.said(), code
}

// succeeds returns the output of a line, which must end with 0.
func (try *try) succeeds(line string) string {
	try.Helper()
	out, code := try.run(line)
	if code != 0 {
		try.Errorf("status %d:\n%s", code, out)
	}
	return out
}

// leads starts the line with a job that does not end, and waits until it runs, as on another
// host that leads.
func (try *try) leads(line string) *running {
	try.Helper()
	before, _, _ := strings.Cut(line, " -- ")
	leader := try.start("exec env " + before + " -- hold up")
	eventually(try.T, "another host leads", func() bool { return try.read("up") != "" || try.unasked(leader) != "" })
	if said := try.unasked(leader); said != "" {
		try.Fatalf("another host's line says\n%s", said)
	}
	return leader
}

// key returns the key of the command.
func (try *try) key() string {
	if m := matches(`--key (\S+)`, try.command); m != nil {
		return m[0][1]
	}
	return "nightly"
}

// job: the line runs its job and prints nothing. What other hosts do meanwhile is up to the
// scripts. With --once-per or --min-hold it does not run again at once.
func (try *try) job() {
	_, job, _ := strings.Cut(try.command, " -- ")
	name := strings.Fields(job)[0]
	if !strings.Contains(name, "/") {
		name = "bin/" + name
	}
	try.file(name, "#!/bin/sh\necho >>"+filepath.Join(try.root, "ran"))
	try.ended(try.start(try.command), 1)
	ran := 2
	if strings.Contains(try.command, " --once-per ") || strings.Contains(try.command, " --min-hold ") {
		ran = 1
	}
	try.ended(try.start(try.command), ran)
}

// ended waits for a line that runs the job, and counts how often that has run.
func (try *try) ended(line *running, ran int) {
	try.Helper()
	code := status(try.T, line.Cmd)
	if n, said := len(try.read("ran")), try.unasked(line); code != 0 || n != ran || said != "" {
		try.Errorf("status %d; the job has run %d times, want %d; it said %q", code, n, ran, said)
	}
}

// unasked returns the output of a line that should print nothing.
func (try *try) unasked(line *running) string {
	if strings.Contains(try.command, " -v ") {
		return ""
	}
	return line.said()
}

// timer: the line runs its job for the time at which the timer elapsed, and only once for
// the same tick.
func (try *try) timer() {
	try.file("bin/systemctl", "#!/bin/sh\necho Sun 2026-03-01 03:00:00 UTC")
	try.command = strings.NewReplacer("/bin/sh -c 'exec ", "", "$$", "$", "%%", "%").Replace(strings.TrimSuffix(try.command, "'"))
	try.job()
	if out := try.succeeds("leaderrun history --key " + try.key() + " -o json"); !strings.Contains(out, `"tick": "2026-03-01T03:00:00Z"`) {
		try.Errorf("the tick is another one:\n%s", out)
	}
}

// says: while another host leads the key, and after its run, the output matches want.
func says(want string) func(*try) {
	return func(try *try) {
		line := "leaderrun --key " + try.key()
		for _, m := range matches(` --store \S+`, try.command) {
			line += m[0]
		}
		try.succeeds(line + " -- true")
		try.leads(line)
		if out := try.succeeds(try.command); !regexp.MustCompile("(?m)" + want).MatchString(out) {
			try.Errorf("it says\n%s", out)
		}
	}
}

// shows: the output is the one in the document.
func (try *try) shows() {
	if out := try.succeeds(try.command); out != try.output && try.output != "" {
		try.Errorf("it says\n%s", out)
	}
}

// resumed: the key was paused.
func (try *try) resumed() {
	try.succeeds("leaderrun pause --for 1h --key " + try.key())
	if out := try.succeeds(try.command); !strings.Contains(out, "resumed") {
		try.Errorf("it says\n%s", out)
	}
}

// forgotten: nothing is known about the key any more.
func (try *try) forgotten() {
	try.succeeds("leaderrun --key " + try.key() + " -- true")
	out := try.succeeds(try.command)
	if left, _ := try.run("leaderrun history -o json --key " + try.key()); !strings.Contains(out, "forgotten") || strings.TrimSpace(left) != "[]" {
		try.Errorf("it says\n%s\nand then\n%s", out, left)
	}
}

func (try *try) handOver() { try.leaves(128 + int(syscall.SIGTERM)) }
func (try *try) takeAway() { try.leaves(76) }

// leaves: the leader's leaderrun ends with this status.
func (try *try) leaves(want int) {
	leader := try.leads("leaderrun --key " + try.key())
	try.succeeds("LEADERRUN_KEY=" + try.key() + " " + try.command)
	if code := status(try.T, leader.Cmd); code != want {
		try.Errorf("the leader ended with %d, want %d", code, want)
	}
}

// inside: the lines succeed in a job that leads, and not elsewhere.
func (try *try) inside() {
	try.file("one.csv", "")
	try.file("bin/load", "#!/bin/sh\ntest -e \"$1\"")
	try.file("bin/inner", "#!/bin/sh\n"+try.command)
	try.succeeds("leaderrun --key k -- inner")
	if out, code := try.run("inner"); code == 0 {
		try.Errorf("it leads without a lease: %s", out)
	}
}

// fromSource: the machine has only Go and git.
func (try *try) fromSource() {
	try.file("bin/leaderrun", "#!/bin/sh\ncd "+output(try.T, "pwd")+"exec go run . \"$@\"")
	want := matches(`echo "(.*)"`, try.command)[0][1] + "\n"
	if out := try.succeeds(strings.Replace(try.command, "go run .", "leaderrun", 1)); out != want {
		try.Errorf("it says %q, want %q", out, want)
	}
}

// flags: a run takes them.
func (try *try) flags() {
	try.succeeds(strings.Replace(try.command, "leaderrun", "leaderrun config", 1))
}

// settings: the file is taken.
func (try *try) settings() {
	_, text, _ := strings.Cut(try.command, "\n")
	try.file("leaderrun/leaderrun.yaml", text)
	if out := try.succeeds("unset LEADERRUN_STORE; leaderrun config"); !strings.Contains(out, try.root+"/leaderrun/leaderrun.yaml: store") {
		try.Errorf("it says\n%s", out)
	}
}

func (try *try) install() {
	target := strings.Fields(try.command)[2]
	try.file(filepath.Dir(target)+"/.mounted", "")
	try.succeeds(try.command)
	try.succeeds(target + " version")
}

// copied: the program that was built is where hosts have it.
func (try *try) copied() {
	try.file("leaderrun", "#!/bin/sh\necho copied")
	try.succeeds(try.command)
	if out := try.succeeds("/usr/local/bin/leaderrun"); out != "copied\n" {
		try.Errorf("it says %q", out)
	}
}

// environmentFile: the unit reads the file, and runs what it names.
func (try *try) environmentFile() {
	try.file("etc/leaderrun/leaderrun.yaml", "")
	try.succeeds(try.command)
	unit := must.Read(try, "deploy/systemd/leaderrun@.service")
	for _, m := range matches(`(?m)^(\w+)=`, try.read("etc/leaderrun/queue.env")) {
		if !strings.Contains(unit, "-- $"+m[1]+"\n") {
			try.Errorf("the unit does not run $%s", m[1])
		}
	}
	if !strings.Contains(unit, "\nEnvironmentFile=/etc/leaderrun/%i.env\n") {
		try.Error("the unit reads another file")
	}
}

// in: a file of this project contains these words.
func in(file, words string) func(*try) {
	return func(try *try) {
		if text, err := os.ReadFile(file); err != nil || !regexp.MustCompile(words).Match(text) {
			try.Errorf("%s does not have it (%v)", file, err)
		}
	}
}

// readOnly: the pages say why it is not run, the shell can parse it, and the file that it
// needs exists and has what it names.
func readOnly(why, file, named string) func(*try) {
	return func(try *try) {
		for _, p := range try.pages {
			if !strings.Contains(strings.Join(strings.Fields(p.text), " "), why) {
				try.Errorf("%s does not say that %s", p.name, why)
			}
		}
		output(try.T, "bash", "-n", "-c", try.command)
		in(file, named)(try)
	}
}

// script: the script exists and knows the words that follow. Words in capitals and numbers
// are placeholders.
func (try *try) script() {
	command := regexp.MustCompile(`^(\w+=\S+ )*`).ReplaceAllString(try.command, "")
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" ,|[]", r) })
	text := must.Read(try, words[0])
	if info, err := os.Stat(words[0]); err != nil || info.Mode()&0o111 == 0 {
		try.Errorf("%s cannot be executed (%v)", words[0], err)
	}
	for _, word := range words[1:] {
		if regexp.MustCompile(`^([A-Z]+|[\d/]+[a-z]*)$`).MatchString(word) || regexp.MustCompile(`[ (|]`+word+`\b`).MatchString(text) {
			continue
		}
		_, err := os.Stat("scripts/mutants.d/" + word + ".patch")
		if err != nil && exec.Command("grep", "-rqw", "func "+word, "cmd", "internal").Run() != nil {
			try.Errorf("%s does not know %s", words[0], word)
		}
	}
}

// goTest: each of the packages has tests of these names, and the flags exist.
func (try *try) goTest() {
	var packages []string
	var names, flags [][]string
	for _, m := range matches(` -(run|bench) (?:'(.*?)'|(\S+))| -(\w+)| (\.\S*)`, try.command) {
		switch {
		case m[5] != "":
			packages = append(packages, m[5])
		case m[4] == "v", m[4] == "count", m[4] == "short", m[4] == "timeout": // go's own
		case m[4] != "":
			flags = append(flags, m)
		default:
			names = append(names, m)
		}
	}
	files := strings.Fields(output(try.T, "go", append([]string{"list", "-f", `{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}} {{end}}`}, packages...)...))
	tests := output(try.T, "cat", files...)
	for _, m := range flags {
		if !strings.Contains(tests, `"`+m[4]+`", `) {
			try.Errorf("no flag %s", m[4])
		}
	}
	for _, m := range names {
		all := ""
		for _, f := range matches(`(?m)^func `+map[string]string{"run": "Test", "bench": "Benchmark"}[m[1]]+`\w+`, tests) {
			all += f[0] + "\n"
		}
		name, script, _ := strings.Cut(m[2]+m[3], "/.*/")
		try.each(name, `(?m)^func \w*`, all)
		try.each(script, `(?m)^`, output(try.T, "find", "testdata/script", "-name", "*.txtar", "-printf", "%f\n"))
	}
}

// each: every name in the pattern stands in the text after a match of before.
func (try *try) each(pattern, before, text string) {
	for _, m := range matches(`\w+`, pattern) {
		if !regexp.MustCompile(before + m[0]).MatchString(text) {
			try.Errorf("nothing has the name %s of %s", m[0], pattern)
		}
	}
}
