package location

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const filePrefix = "file:"

// Password returns a password that an address has, or the first line of the file
// that it names: file:PATH. It takes what is no longer escaped.
func Password(given string) (string, *Error) {
	file, ok := strings.CutPrefix(given, filePrefix)
	if !ok {
		return given, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) { // its name is said already
			err = path.Err
		}
		return "", &Error{Problem: "the password file " + strconv.Quote(file) + " cannot be read: " + err.Error(), Hint: "correct its path, or make it readable"}
	}
	first, _, _ := strings.Cut(string(content), "\n")
	if first = strings.TrimSuffix(first, "\r"); first == "" {
		return "", &Error{Problem: "the password file " + strconv.Quote(file) + " is empty", Hint: "put the password into its first line"}
	}
	return first, nil
}
