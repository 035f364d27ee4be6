package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

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
	if c.Key == "" && len(command) > 0 && verbs()[command[0]] != nil {
		return c, &config.Error{Problem: "no key: --key is missing", Cure: "leaderrun " + command[0] + " is meant? The verb comes first, flags after it"}
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
	s := &sources{flags: flags, values: viper.New()}
	found := s.find(files)
	for _, name := range settingNames(flags) {
		if !s.values.IsSet(name) || name == "config" || s.overruled(name) {
			continue
		}
		if err := c.Set(name, s.values.GetString(name)); err != nil && found == nil {
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
	values *viper.Viper
	file   string
	redis  redisSet
}

func (s *sources) find(files []string) error {
	s.values.AllowEmptyEnv(true) // a variable that is set but empty is an error, not an absence
	for _, name := range settingNames(s.flags) {
		_ = s.values.BindPFlag(name, s.flags.Lookup(name)) // fails for a nil flag only
		_ = s.values.BindEnv(name, variable(name))         // fails without a name only
	}
	if err := checkVariables(s.flags); err != nil {
		return err
	}
	if err := s.readFile(files); err != nil {
		return err
	}
	if s.values.IsSet("store") {
		return nil // a set is used whole or not at all
	}
	var err error
	if s.redis, err = findRedisSet(); err != nil {
		return err
	}
	for name, value := range s.redis.values {
		s.values.SetDefault(name, value)
	}
	return nil
}

// readFile reads the file of settings, if there is one. What it holds must be
// right even where a flag or a variable wins over it.
func (s *sources) readFile(files []string) error {
	text, err := s.openFile(files)
	if err != nil {
		return err
	}
	inFile := viper.New()
	inFile.SetConfigType("yaml")
	if err := inFile.ReadConfig(bytes.NewReader(text)); err != nil {
		// The parser's message may quote what it read, and that may be a password.
		return &config.Error{Problem: s.file + ": is not valid YAML" + line(err), Cure: "write one setting per line, like ttl: 30s"}
	}
	names := settingNames(s.flags)
	keys := inFile.AllKeys()
	slices.Sort(keys)
	for _, key := range keys {
		if key == "config" || !slices.Contains(names, key) {
			return s.unknownKey(key, names)
		}
		if problem := wrongType(key, inFile.Get(key)); problem != "" {
			return &config.Error{Setting: key, Source: s.file + ": " + key, Problem: problem, Cure: "write it like on the command line, in quotes if need be"}
		}
	}
	return s.values.MergeConfigMap(inFile.AllSettings())
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
			return nil, &config.Error{Setting: "config", Source: s.name("config"), Value: file, Problem: "cannot be read: " + cause(err), Cure: "name a file of settings that exists"}
		case !errors.Is(err, fs.ErrNotExist) && !hidden(file):
			return nil, &config.Error{Problem: file + ": cannot be read: " + cause(err), Cure: "let this user read it (chgrp, or chmod if no password is in it), or name another file with --config"}
		}
	}
	return nil, nil
}

// hidden reports whether not even the existence of a file can be seen: the home
// of another user, say, that a service has kept in its environment.
func hidden(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrPermission)
}

func (s *sources) unknownKey(key string, names []string) error {
	e := &config.Error{Problem: s.file + ": " + config.Shown(key) + ": no such setting", Cure: "settings are named like the flags; leaderrun --help lists them"}
	if name := near(key, names); name != "" {
		e.Cure = "did you mean " + name + "?"
	}
	return e
}

// wrongType says what is wrong with the type of a value in the file. Names and
// paths must be text there: YAML reads 0123 as 83 and true as a truth value,
// and would run the job under another key than the one that was written.
func wrongType(name string, value any) string {
	verbatim := slices.Contains([]string{"key", "prefix", "store", "outcome-file", "metrics-textfile", "on-acquire", "on-lost", "on-skip"}, name)
	switch value.(type) {
	case string:
		return ""
	case int, float64, bool:
		if !verbatim {
			return ""
		}
		return "is a number or a truth value, not text"
	case nil:
		return "has no value"
	}
	return "is not a single value"
}

// The places of a setting, the nearest first.
const (
	placeFlag = iota
	placeVariable
	placeFile
	placeElsewhere
)

func (s *sources) place(setting string) int {
	_, inEnvironment := os.LookupEnv(variable(setting))
	switch {
	case s.flags.Changed(setting):
		return placeFlag
	case inEnvironment:
		return placeVariable
	case s.values.InConfig(setting):
		return placeFile
	}
	return placeElsewhere
}

// name tells people where a setting was found; empty: nowhere.
func (s *sources) name(setting string) string {
	switch s.place(setting) {
	case placeFlag:
		return "--" + setting
	case placeVariable:
		return variable(setting)
	case placeFile:
		return s.file + ": " + setting
	}
	return s.redis.names[setting]
}

// overruled reports whether another setting that says the same in other words
// stands in a nearer place.
func (s *sources) overruled(setting string) bool {
	other, ok := map[string]string{"ttl": "profile", "renew": "profile", "verbose": "quiet", "quiet": "verbose"}[setting]
	if !ok || s.place(other) >= s.place(setting) {
		return false
	}
	on, err := strconv.ParseBool(s.values.GetString(other))
	return on || err != nil // a profile is neither on nor off
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

// line is the line number in a YAML parser's message, as words.
func line(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "line ")
	var n int
	if _, scanErr := fmt.Sscanf(rest, "%d", &n); !ok || scanErr != nil {
		return ""
	}
	return fmt.Sprintf(" (line %d)", n)
}
