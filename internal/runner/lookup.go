package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
)

// Lookup finds the program as execvp(3) would: a name with a slash is taken as
// it is, any other is looked for in PATH, whose empty elements mean the working
// directory. The error matches fs.ErrNotExist or fs.ErrPermission.
func Lookup(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot): // the user's PATH says so
		return path, nil
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s: not found in PATH: %w", name, fs.ErrNotExist)
	}
	return path, err
}
