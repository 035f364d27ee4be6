package cmd

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/config"
)

// defaultFiles are where settings are looked for when no file is named: the
// first that exists is used, alone. The working directory is never searched,
// since a job must not depend on where it was started.
func defaultFiles() []string {
	files := []string{"/etc/leaderrun/leaderrun.yaml"}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "leaderrun", "leaderrun.yaml"))
	}
	return files
}

// load finds every setting: flag, else LEADERRUN_ variable, else file, else one
// set of Redis variables, else the default. With an error the Config holds what
// could be read, so that the error can be told in the form that was asked for.
func load(flags *pflag.FlagSet, command, files []string) (config.Config, error) {
	c, s, err := gather(flags, files)
	c.Command = command
	if err != nil {
		return c, err
	}
	if now, _ := flags.GetBool(nowFlag); now {
		if flags.Changed("wait") && c.Wait != 0 {
			return c, &config.Error{Problem: "-n and --wait contradict each other", Cure: "-n means --wait 0: use one of them"}
		}
		c.Wait = 0
	}
	if c.Key == "" && len(command) > 0 {
		if verb := near(command[0], slices.Sorted(maps.Keys(verbs()))); verb != "" {
			return c, &config.Error{Problem: "no key: --key is missing", Cure: "leaderrun " + verb + " is meant? The verb comes first, flags after it; a command needs --key NAME"}
		}
	}
	for _, check := range []func(*config.Config) error{(*config.Config).Validate, checkNesting, checkStore, checkOutcomeFile} {
		if err := check(&c); err != nil {
			return c, s.locate(err)
		}
	}
	return c, nil
}

// gather reads every setting from where it is given.
func gather(flags *pflag.FlagSet, files []string) (config.Config, *sources, error) {
	c := config.Default()
	s := &sources{flags: flags}
	found := s.read(files)
	for _, name := range settingNames(flags) {
		value, at := s.find(name)
		if at == nowhere || name == "config" || s.overruled(name) {
			continue
		}
		if err := c.Set(name, value); err != nil && found == nil {
			found = s.locate(err)
		}
	}
	c.StoreSource = s.name("store")
	return c, s, found
}

func checkNesting(c *config.Config) error {
	if !slices.Contains(outerKeys(), c.Key) {
		return nil
	}
	return &config.Error{
		Setting: "key", Value: c.Key,
		Problem: "this command already runs under leaderrun with that key, and would wait for itself",
		Cure:    "run the command directly, or give another key with --key",
	}
}

// checkStore refuses the default store where it is wrong, and reads a password
// that is kept in a file.
func checkStore(c *config.Config) error {
	inLeaderrun := outerKeys() != nil
	_, inKubernetes := os.LookupEnv("KUBERNETES_SERVICE_HOST")
	if c.StoreSource == "" && (inLeaderrun || inKubernetes) {
		where := "in Kubernetes"
		if inLeaderrun {
			where = "inside another leaderrun"
		}
		return &config.Error{
			Problem: "no store named, and " + where + " this host's own Redis is not a safe guess",
			Cure:    "name it with --store redis://HOST:6379/0, or with LEADERRUN_STORE",
		}
	}
	var err error
	c.Store, err = withPasswordFile(c.Store)
	return err
}

// sources are the places where settings come from, the first that has one wins:
// flags, variables, the file, the Redis set.
type sources struct {
	flags  *pflag.FlagSet
	file   string            // its path; empty: there is none
	inFile map[string]string // by setting
	redis  redisSet
}

// read reads what is not at hand, and finds what is wrong in the places as such.
// What the file names must be settings even where a flag or a variable wins; a
// value that is not the nearest is not looked at.
func (s *sources) read(files []string) error {
	if err := checkVariables(s.flags); err != nil {
		return err
	}
	text, err := s.openFile(files)
	if err != nil {
		return err
	}
	if s.inFile, err = parseFile(s.file, text, settingNames(s.flags)); err != nil {
		return err
	}
	if _, at := s.find("store"); at != nowhere {
		return nil // a set is used whole or not at all
	}
	s.redis, err = findRedisSet()
	return err
}

func (s *sources) openFile(files []string) ([]byte, error) {
	named, isNamed := os.LookupEnv(variable("config"))
	if s.flags.Changed("config") {
		named, isNamed = s.flags.Lookup("config").Value.String(), true
	}
	if isNamed {
		files = []string{named}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		switch {
		case err == nil:
			s.file = file
			return text, nil
		case isNamed:
			return nil, &config.Error{Setting: "config", Source: s.name("config"), Value: file, Problem: "cannot be read: " + cause(err), Cure: "name a file of settings that exists and that this user may read"}
		case !absent(file):
			return nil, &config.Error{Problem: file + ": cannot be read: " + cause(err), Cure: "let this user read it (chgrp, or chmod if no password is in it), or name another file with --config"}
		}
	}
	return nil, nil
}

// absent reports whether there is no file, or none that can be seen: the home may
// be another user's, which a service has kept in its environment, or /dev/null. A
// symbolic link to nothing is there: somebody meant settings to be behind it.
func absent(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

// A place is where a setting is given; the nearest is the least.
type place int

const (
	onCommandLine place = iota
	inEnvironment
	inFile
	inRedisSet
	nowhere
)

// find returns a setting as it is written in the nearest place that has it. A
// variable that is set but empty is an error to find, not an absence.
func (s *sources) find(setting string) (value string, at place) {
	if s.flags.Changed(setting) {
		return s.flags.Lookup(setting).Value.String(), onCommandLine
	}
	if value, ok := os.LookupEnv(variable(setting)); ok {
		return value, inEnvironment
	}
	if value, ok := s.inFile[setting]; ok {
		return value, inFile
	}
	if value, ok := s.redis.values[setting]; ok {
		return value, inRedisSet
	}
	return "", nowhere
}

// name tells people where a setting was found; empty: nowhere.
func (s *sources) name(setting string) string {
	switch _, at := s.find(setting); at {
	case onCommandLine:
		return "--" + setting
	case inEnvironment:
		return variable(setting)
	case inFile:
		return s.file + ": " + setting
	}
	return s.redis.names[setting]
}

// overruled reports whether another setting that says the same in other words
// stands in a nearer place.
func (s *sources) overruled(setting string) bool {
	word, ok := map[string]string{"ttl": "profile", "renew": "profile", "verbose": "quiet", "quiet": "verbose"}[setting]
	if !ok {
		return false
	}
	_, at := s.find(setting)
	other, otherAt := s.find(word)
	on, err := strconv.ParseBool(other)
	return otherAt < at && (on || err != nil) // a profile is neither on nor off
}

func (s *sources) locate(err error) error {
	var e *config.Error
	if errors.As(err, &e) && e.Setting != "" {
		e.Source = s.name(e.Setting)
	}
	return err
}

// settingNames are the flags that can be given in other places as well.
func settingNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != nowFlag && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// variable is the name of a setting in the environment.
func variable(setting string) string {
	return "LEADERRUN_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// checkVariables refuses a LEADERRUN_ variable that means nothing: a setting
// that was misspelt must not turn into a default.
func checkVariables(flags *pflag.FlagSet) error {
	known := []string{holderVariable, tokenVariable, outerVariable, fileVariable, eventVariable, outcomeVariable} // told to commands and hooks, never settings
	for _, name := range settingNames(flags) {
		known = append(known, variable(name))
	}
	environ := os.Environ()
	slices.Sort(environ)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "LEADERRUN_") || slices.Contains(known, name) || serviceVariable(name, value) {
			continue
		}
		e := &config.Error{Problem: name + " is set, but is no setting", Cure: "unset it; leaderrun --help lists the settings"}
		if other := near(name, known); other != "" {
			e.Cure = "did you mean " + other + "? if not, unset it"
		}
		return e
	}
	return nil
}

// cause is the reason in an error about a file whose name is told already.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
