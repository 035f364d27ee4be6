package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A line of a document that calls leaderrun: by itself, in a crontab, a unit or a
// shell's condition, or as what a container starts.
var call = regexp.MustCompile(`(?m)^(?:    |\$ |ExecStart=|[-0-9*/, ]{9,} +(?:root +)?)?(?:sudo -u \w+ (?:env -i )?)?(?:/\S+/)?leaderrun +([^|#\n]*)`)

// What the documents show is what leaderrun takes: every flag of every line is
// read, and every verb's.
func TestDocumentedCommands(t *testing.T) {
	noSettings(t)
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range codeBlocks(string(text)) {
			for _, m := range call.FindAllStringSubmatch(strings.ReplaceAll(block, "\\\n", " "), -1) {
				line, _, _ := strings.Cut(m[1], " || ")
				line, _, _ = strings.Cut(line, " > ")
				args := strings.Fields(strings.NewReplacer(`"`, "", "$(POD_IP)", "fd00::7", "NAME", "name").Replace(line))
				read++
				if err := understood(t, args); err != nil {
					t.Errorf("%s: leaderrun %s: %v", file, m[1], err)
				}
			}
		}
	}
	if read < 40 {
		t.Errorf("only %d lines were found", read)
	}
}

// codeBlocks are the parts of a document that are fenced or indented.
func codeBlocks(text string) []string {
	var blocks []string
	for i, part := range strings.Split(text, "\n```") {
		if i%2 == 1 {
			blocks = append(blocks, part)
			continue
		}
		for line := range strings.Lines(part) {
			if strings.HasPrefix(line, "    ") {
				blocks = append(blocks, line)
			}
		}
	}
	return blocks
}

// understood reads the words behind leaderrun as Main does, and asks nobody.
func understood(t *testing.T, args []string) error {
	t.Helper()
	if len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "--help" {
		flags := newFlags()
		if err := flags.Parse(args); err != nil {
			return err
		}
		command := flags.Args()
		if len(command) == 0 {
			command = []string{"job"} // the line goes on elsewhere
		}
		_, err := load(flags, command, nil)
		return err
	}
	if len(args) == 0 || verb(args[0]) == nil {
		return nil // prose, or the help
	}
	command, rest, err := verb(args[0]).Find(args)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}
