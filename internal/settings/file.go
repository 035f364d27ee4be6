package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// strict is viper's decoder for the file. Viper's own decoder would lower-case names,
// convert values to numbers and ignore duplicates. file points to the path, which is not
// known yet when the decoder is made.
type strict struct{ file *string }

// Decoder implements viper.DecoderRegistry.
func (d strict) Decoder(string) (viper.Decoder, error) { return d, nil }

// Decode implements viper.Decoder.
func (d strict) Decode(text []byte, values map[string]any) error {
	found, err := parseFile(*d.file, text, Names())
	for name, value := range found {
		values[name] = given{value, inFile, *d.file + ": " + name}
	}
	return err
}

// parseFile parses a settings file: one mapping from names to scalar values. Values
// are kept as written, without YAML's conversions: the key 0123 is not 83. Errors
// begin with the file's path.
func parseFile(path string, text []byte, names []string) (map[string]string, error) {
	root, err := parseDocument(path, text)
	if err != nil || root.ShortTag() == nullTag {
		return nil, err
	}
	if root.Kind != yaml.MappingNode {
		return nil, &Error{Problem: path + ": holds no settings", Hint: oneSettingPerLine}
	}
	found := make(map[string]string)
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if name.Kind != yaml.ScalarNode { // the value of an alias is the anchor's name
			return nil, &Error{Problem: fmt.Sprintf("%s: has a name that is not text (line %d)", path, name.Line), Hint: oneSettingPerLine}
		}
		if !slices.Contains(names, name.Value) {
			return nil, unknownSetting(path, name.Value, names)
		}
		_, twice := found[name.Value]
		problem, hint := "", "give it one value, as on the command line"
		switch {
		case name.Value == fileSetting:
			problem, hint = "a file of settings cannot name another", "remove it: --config or LEADERRUN_CONFIG names the file"
		case twice:
			problem = fmt.Sprintf("appears a second time (line %d)", name.Line)
		case value.Kind != yaml.ScalarNode:
			problem = "is not a single value"
		case value.ShortTag() == nullTag:
			problem = "has no value"
		}
		if problem != "" {
			return nil, &Error{Setting: name.Value, Source: path + ": " + name.Value, Problem: problem, Hint: hint}
		}
		found[name.Value] = value.Value
	}
	return found, nil
}

const nullTag = "!!null"

// parseDocument parses the only document of a file; null if it has only comments.
func parseDocument(path string, text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return new(yaml.Node), nil
	}
	if err == nil {
		err = decoder.Decode(&second)
	}
	switch {
	case errors.Is(err, io.EOF):
		return document.Content[0], nil
	case err == nil:
		return nil, &Error{Problem: path + ": has a second YAML document", Hint: "remove the line --- between them, or what follows it"}
	case !utf8.Valid(text):
		return nil, &Error{Problem: path + ": is not UTF-8 text", Hint: "write it in UTF-8, comments too"}
	}
	// The parser's message may quote a password.
	return nil, &Error{Problem: path + ": is not valid YAML" + lineOf(err), Hint: oneSettingPerLine + ", at its very start, and a value with brackets or other signs in 'quotes'"}
}

const oneSettingPerLine = "write one setting per line, like ttl: 30s"

func unknownSetting(path, name string, names []string) error {
	e := &Error{Problem: path + ": " + Redact(name) + ": no such setting", Hint: "settings are named like the flags; leaderrun --help --all lists them"}
	if other := Suggest(strings.ToLower(name), names); other != "" {
		e.Hint = "did you mean " + other + "?"
	}
	return e
}

// lineOf extracts the line number from a YAML parser's message. In some cases the
// parser names the line before the error.
func lineOf(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "line ")
	var n int
	if _, scanErr := fmt.Sscanf(rest, "%d", &n); !ok || scanErr != nil {
		return ""
	}
	return fmt.Sprintf(" (near line %d)", n)
}
