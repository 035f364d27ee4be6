package s3

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// env returns the value of a variable of AWS' programs, "" without one.
type env func(name string) string

// profile is a section of AWS' two files. The file of credentials takes precedence.
type profile struct {
	name   string
	values map[string]string
	found  bool
}

// profile reads the profile that AWS_PROFILE names, or the default one. A file that does not
// exist is empty.
func (e env) profile() (p profile, err error) {
	p = profile{name: cmp.Or(e("AWS_PROFILE"), "default"), values: map[string]string{}}
	section := "profile " + p.name
	if p.name == "default" {
		section = p.name
	}
	if err = p.read(cmp.Or(e("AWS_CONFIG_FILE"), e.inHome("config")), section); err == nil {
		err = p.read(cmp.Or(e("AWS_SHARED_CREDENTIALS_FILE"), e.inHome("credentials")), p.name)
	}
	if err == nil && !p.found && e("AWS_PROFILE") != "" {
		err = urls.Refusal("AWS' files have no profile "+p.name+", which AWS_PROFILE names", "aws configure list-profiles lists those that they have")
	}
	return p, err
}

// inHome returns the path of one of AWS' files; "" without a home, as in a unit of root's: others may
// write to the working directory.
func (e env) inHome(name string) string {
	if !filepath.IsAbs(e("HOME")) {
		return ""
	}
	return filepath.Join(e("HOME"), ".aws", name)
}

// read adds the values of a section of a file.
func (p *profile) read(file, section string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return urls.Refusal("AWS' file cannot be read: "+err.Error(), "make it readable for this user, or name another one with AWS_CONFIG_FILE or AWS_SHARED_CREDENTIALS_FILE")
	}
	within := false
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimRight(lines.Text(), " \t\r")
		switch name, value, isValue := strings.Cut(line, "="); {
		case strings.HasPrefix(line, "["):
			within = strings.Join(strings.Fields(strings.Trim(line, "[]")), " ") == section
			p.found = p.found || within
		case within && isValue && strings.TrimLeft(line, " \t#;") == line: // neither of a nested section nor a comment
			p.values[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	return nil
}
