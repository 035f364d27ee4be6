package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leaderrun/leaderrun/internal/config"
)

// parseFile reads the text of a file of settings: one mapping of settings, by the
// given names, to single values. A value is taken as it is written and not as
// what YAML makes of it: the key 0123 is no 83. What is wrong is told under the
// file's path.
func parseFile(path string, text []byte, names []string) (map[string]string, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF): // comments at most
		return nil, nil
	case err != nil:
		// The parser's message may quote what it read, and that may be a password.
		return nil, &config.Error{Problem: path + ": is not valid YAML" + line(err), Cure: oneSettingPerLine}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &config.Error{Problem: path + ": has a second YAML document", Cure: "remove the line --- between them, or what follows it"}
	}
	root := document.Content[0]
	if root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &config.Error{Problem: path + ": holds no settings", Cure: oneSettingPerLine}
	}
	settings := make(map[string]string)
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i].Value, root.Content[i+1]
		if name == "config" || !slices.Contains(names, name) {
			return nil, unknownSetting(path, name, names)
		}
		_, twice := settings[name]
		problem := ""
		switch {
		case twice:
			problem = fmt.Sprintf("is there a second time (line %d)", root.Content[i].Line)
		case value.Kind != yaml.ScalarNode:
			problem = "is not a single value"
		case value.ShortTag() == "!!null":
			problem = "has no value"
		}
		if problem != "" {
			return nil, &config.Error{Setting: name, Source: path + ": " + name, Problem: problem, Cure: "give it one value, as on the command line"}
		}
		settings[name] = value.Value
	}
	return settings, nil
}

const oneSettingPerLine = "write one setting per line, like ttl: 30s"

func unknownSetting(path, name string, names []string) error {
	e := &config.Error{Problem: path + ": " + config.Shown(name) + ": no such setting", Cure: "settings are named like the flags; leaderrun --help lists them"}
	if other := near(strings.ToLower(name), names); other != "" {
		e.Cure = "did you mean " + other + "?"
	}
	return e
}

// line is the line number in a YAML parser's message, as words.
func line(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "line ")
	var n int
	if _, scanErr := fmt.Sscanf(rest, "%d", &n); !ok || scanErr != nil {
		return ""
	}
	return fmt.Sprintf(" (line %d)", n)
}
