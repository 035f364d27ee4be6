package run

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Lookup finds the file to execute as execvp(3) does: a name with a slash is used
// unchanged; any other is searched in PATH, where an empty element means the working
// directory. A file that cannot be executed is skipped, but if no other is found its
// error is returned. Otherwise the error matches fs.ErrNotExist.
//
// os/exec's LookPath does not do this: it refuses the working directory and does not
// report a file that is not executable.
func Lookup(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = "/bin:/usr/bin" // as execvp does
	}
	problem := error(&fs.PathError{Op: "exec", Path: name, Err: fs.ErrNotExist})
	if name == "" {
		return "", problem
	}
	for dir := range strings.SplitSeq(path, ":") {
		file := strings.TrimSuffix(cmp.Or(dir, "."), "/") + "/" + name
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
			problem = err
		}
	}
	return "", problem
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	const execute = 1 // X_OK
	switch {
	case info.IsDir():
		err = syscall.EISDIR
	case !info.Mode().IsRegular():
		err = syscall.EACCES
	default:
		err = syscall.Access(file, execute)
	}
	if err != nil {
		return &fs.PathError{Op: "exec", Path: file, Err: err}
	}
	return nil
}
