package location

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
)

const filePrefix = "file:"

// Password returns the password that an address gives: the text itself, or the first line
// of a file if it has the form file:PATH. The caller has already decoded %-escapes.
func (k Kind) Password(given string) (string, error) {
	file, ok := strings.CutPrefix(given, filePrefix)
	if !ok {
		return given, nil // without a line break, see Parse
	}
	content, err := os.ReadFile(file)
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok { // the message names the file already
			err = path.Err
		}
		return "", k.Refusal("the password file "+strconv.Quote(file)+" cannot be read: "+err.Error(), "correct its path, or make it readable")
	}
	first, _, _ := strings.Cut(string(content), "\n")
	if first = strings.TrimSuffix(first, "\r"); first == "" {
		return "", k.Refusal("the password file "+strconv.Quote(file)+" is empty", "put the password into its first line")
	}
	return first, nil
}

// HintPasswordFile changes the hint of an error of [Factory.Open] where the path of a
// password's file was written with its slashes as they are: the first one ends the host.
func HintPasswordFile(address string, err error) error {
	if failure, ok := errors.AsType[*lease.StoreError](err); ok && strings.Contains(address, ":"+filePrefix+"/") {
		failure.Hint = "write the slashes of the password's file as %2F, as in USER:file:%2Fetc%2Fpassword@HOST"
	}
	return err
}
