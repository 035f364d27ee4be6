package settings

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/leaderrun/leaderrun/internal/store"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Files returns the default settings files. Only the first that exists is used. The
// working directory is never searched: a job must not depend on where it was started.
func Files() []string {
	files := []string{"/etc/leaderrun/leaderrun.yaml"}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "leaderrun", "leaderrun.yaml"))
	}
	return files
}

// Sources are the places where settings come from. The first that has a setting wins:
// flag, LEADERRUN_ variable, file, a set of variables that other programs use too,
// default.
type Sources struct {
	// File is the path of the settings file; empty if there is none.
	File string

	flags  *pflag.FlagSet
	values *viper.Viper // of variables the text, of all others a given
	found  location.Found
}

// given is the value of a setting, and the place where it is given: in words, too.
type given struct {
	value  string
	place  place
	source string
}

// A place is where a setting is given. A smaller one wins.
type place int

const (
	onCommandLine place = iota
	inEnvironment
	inFile
	inFound // in variables of other programs
	nowhere
)

// Read reads all settings. After an error the Config has the settings that could be
// read, so that the error can be logged in the format that was asked for.
func Read(flags *pflag.FlagSet, files []string) (Config, *Sources, error) {
	c := Default()
	s := &Sources{flags: flags}
	err := s.read(files)
	for _, name := range Names() {
		if name == fileSetting || !s.given(name) || s.overruled(name) {
			continue
		}
		problem := c.Set(name, s.get(name).value)
		if err == nil { // the first error is returned
			err = s.Locate(problem)
		}
	}
	c.StoreSource = s.get("store").source
	c.Told = s.told()
	if err == nil {
		err = s.readNow(&c)
	}
	return c, s, err
}

// told collects how the store was named.
func (s *Sources) told() Told {
	t := Told{Source: s.get("store").source}
	for _, name := range []string{"store", "prefix", fileSetting} {
		if g := s.get(name); g.place == onCommandLine {
			value := g.value
			if name == "store" {
				value = store.Redact(value)
			}
			t.Flags += " --" + name + " " + quoted(value)
		}
	}
	if s.get("store").place == inFound && s.found.Variables["host"] != "" {
		t.Variables = s.found.Variables
	}
	return t
}

// readNow reads -n.
func (s *Sources) readNow(c *Config) error {
	now, _ := s.flags.GetBool(NowFlag)
	if !now {
		return nil
	}
	if s.flags.Changed("wait") && c.Wait != 0 {
		return &Error{Problem: "-n and --wait contradict each other", Hint: "-n means --wait 0: use one of them"}
	}
	c.Wait = 0
	return nil
}

// read reads all sources. Every name in the file must be a setting, even if a flag or a
// variable wins over it; but only the value that wins is checked.
func (s *Sources) read(files []string) error {
	s.values = viper.NewWithOptions(viper.WithDecoderRegistry(strict{&s.File}))
	s.values.SetConfigType("yaml")
	s.values.SetEnvPrefix("LEADERRUN")
	s.values.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	s.values.AllowEmptyEnv(true) // an empty variable is an error, not an absent one
	s.values.AutomaticEnv()
	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			s.values.Set(f.Name, given{f.Value.String(), onCommandLine, "--" + f.Name})
		}
	})
	if err := checkVariables(os.Environ()); err != nil {
		return err
	}
	text, err := s.openFile(files)
	if err != nil {
		return err
	}
	if err := s.values.ReadConfig(bytes.NewReader(text)); err != nil {
		return errors.Unwrap(err) // without viper's words
	}
	if s.given("store") {
		return nil // a set is used whole or not at all
	}
	return s.readFound()
}

// readFound reads the variables of other programs that name a store.
func (s *Sources) readFound() error {
	found, err := store.FromEnvironment(os.Environ())
	if bad, ok := errors.AsType[*location.Error](err); ok {
		e := &Error{Source: bad.Variable, Value: bad.Value, Problem: bad.Problem, Hint: bad.Hint}
		if bad.Variable != "" {
			e.Setting = "store"
		}
		return e
	}
	s.found = found
	for name, value := range found.Values {
		s.values.SetDefault(name, given{value, inFound, found.Variables[name]})
	}
	return err
}

func (s *Sources) openFile(files []string) ([]byte, error) {
	named := s.given(fileSetting)
	if named {
		files = []string{s.get(fileSetting).value}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		switch {
		case err == nil:
			s.File = file
			return text, nil
		case named:
			return nil, &Error{Setting: fileSetting, Source: s.get(fileSetting).source, Value: file, Problem: "cannot be read: " + Cause(err), Hint: "name a file of settings that exists and that this user may read"}
		case !absent(file):
			return nil, &Error{Problem: file + ": cannot be read: " + Cause(err), Hint: "let this user read it (chgrp, or chmod if no password is in it), or name another file with --config"}
		}
	}
	return nil, nil
}

// absent reports whether the file does not exist or this user cannot see it: HOME may
// still be another user's, or /dev/null. A dangling symbolic link counts as a file:
// somebody wanted settings there.
func absent(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

// get returns the value that has precedence.
func (s *Sources) get(setting string) given {
	switch value := s.values.Get(setting).(type) {
	case given:
		return value
	case string:
		return given{value, inEnvironment, variableOf(setting)}
	}
	return given{place: nowhere}
}

func (s *Sources) given(setting string) bool { return s.get(setting).place != nowhere }

// overruled reports whether a place with precedence gives a setting that contradicts
// this one, as --quiet contradicts LEADERRUN_VERBOSE.
func (s *Sources) overruled(setting string) bool {
	other, ok := map[string]string{"ttl": "profile", "renew": "profile", "verbose": "quiet", "quiet": "verbose"}[setting]
	if !ok {
		return false
	}
	on, err := strconv.ParseBool(s.get(other).value)
	off := err == nil && !on // a switch that is off contradicts nothing; a profile is no switch
	return s.get(other).place < s.get(setting).place && !off
}

// Locate adds the source of the setting to an error.
func (s *Sources) Locate(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Setting != "" {
		e.Source = s.get(e.Setting).source
	}
	return err
}

// Cause returns an error about a file without the file's name.
func Cause(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}
