package location

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const filePrefix = "file:"

// Password returns the password that an address gives: itself, or as file:PATH the first
// line of that file. The caller has decoded the address's %-escapes.
func Password(given string) (string, *Error) {
	file, ok := strings.CutPrefix(given, filePrefix)
	if !ok {
		return given, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) { // the message names the file already
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
