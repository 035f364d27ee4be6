package settings

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Told is how a user named the store.
type Told struct {
	// Source is the flag, the variable or the file; "" for the default.
	Source string
	// Flags are those of the command line that name the store, as a verb takes them, each
	// with a blank before it.
	Flags string
	// Variables are those of other programs that the address was made of, by what they say:
	// host, port, user, password, database.
	Variables map[string]string
}

// quoted returns a value in the form that a shell reads.
func quoted(value string) string {
	if value != "" && strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+=") == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// theURL is how a store calls its address in a hint, perhaps with its form after it.
const (
	theURL  = "the store's URL"
	urlForm = ": redis://"
)

var storeCommands = regexp.MustCompile(`leaderrun (status|why|history|release|pause|resume|forget|doctor)\b`)

// Hint returns a hint with the names of this user: the flag, the variable or the file that names the
// store, and commands with the flags that name it.
func (t Told) Hint(text string) string {
	if strings.Contains(text, theURL) {
		variables := t.variables(text)
		if variables != "" {
			text, _, _ = strings.Cut(text, urlForm)
		}
		text = strings.ReplaceAll(text, theURL, cmp.Or(variables, t.Source, theURL))
	}
	if t.Flags == "" || !strings.Contains(text, "leaderrun ") {
		return text
	}
	return storeCommands.ReplaceAllStringFunc(text, func(command string) string { return command + t.Flags })
}

// variables returns the variables for the parts of an address that a hint is about, those that are
// set if there are some; "" if the address was not made of variables.
func (t Told) variables(hint string) string {
	switch {
	case t.Variables == nil:
		return ""
	case strings.Contains(hint, "="): // a parameter of the URL, for which there is no variable
		return "a URL for --store"
	}
	var set, unset []string
	for _, part := range []string{"user", "password", "host", "port", "database"} {
		name := t.Variables[part]
		if !strings.Contains(hint, part) || slices.Contains(append(set, unset...), name) {
			continue
		}
		if os.Getenv(name) != "" {
			set = append(set, name)
		} else {
			unset = append(unset, name)
		}
	}
	if set == nil {
		set = unset
	}
	return cmp.Or(strings.Join(set, " or "), t.Variables["host"])
}
