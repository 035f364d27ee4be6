package settings

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/internal/store"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Setting is one row of the table, [Groups]. It defines the flag, the variable and the
// name in the file, parses the value, and has the text for the help, the manual pages,
// the completion and docs/settings.md. A new setting is one row and its use.
type Setting struct {
	// Name is the name of the flag without dashes, Short its letter or "".
	Name, Short string
	// Value stands for the value in the help; "" for a switch.
	Value string
	// Default is the default; Derived replaces it in the help if the default depends on
	// other settings, and then [Config.Validate] sets it.
	Default, Derived string
	// Usage describes the setting. Help, if not "", replaces it in leaderrun --help --all.
	Usage, Help string
	// Common: it is one of the few flags that leaderrun --help shows.
	Common bool
	// Choices are possible values, for completion.
	Choices []string

	set func(c *Config, value string) *Error
}

// Group is a heading of the help with its settings.
type Group struct {
	Heading  string
	Settings []Setting
}

// The words of the settings that have only a few.
var (
	profiles     = []string{string(Fast), string(Normal), string(Unreliable)}
	onRenewError = []string{"retry", "stop"}
	leftovers    = []string{"stop", "wait", "leave"}
	formats      = []string{"text", "json"}
)

// Groups are all settings of a run, in the order of the help.
var Groups = []Group{
	{"The lease (D is a duration with a unit: 500ms, 30s, 24h)", []Setting{
		{
			Name: "key", Common: true, Value: "NAME", Usage: "name of the lease: [A-Za-z0-9._:/-]{1,200}",
			set: into(func(c *Config) *string { return &c.Key }, parseName),
		},
		{
			Name: "store", Common: true, Value: "URL", Default: store.Default, Usage: "address of the store that all hosts share",
			Help: store.Usage() + "; PASSWORD may be file:PATH",
			set:  into(func(c *Config) *string { return &c.Store }, parseAddress),
		},
		{
			Name: "prefix", Value: "NAME", Default: "leaderrun", Usage: "beginning of all keys in the store",
			Help: "the key in Redis is NAME:leader:KEY",
			set:  into(func(c *Config) *string { return &c.Prefix }, parseName),
		},
		{
			Name: "ttl", Common: true, Value: "D", Derived: lease.FormatDuration(Normal.ttl()), Usage: "life of a lease that is not renewed",
			set: into(func(c *Config) *time.Duration { return &c.TTL }, parsePositive),
		},
		{
			Name: "renew", Value: "D", Derived: "ttl/3", Usage: "renewal interval",
			set: into(func(c *Config) *time.Duration { return &c.Renew }, parsePositive),
		},
		{
			Name: "profile", Value: "NAME", Default: string(Normal), Usage: "fast, normal or unreliable: a TTL of 15s, 30s or 90s",
			Choices: profiles,
			set:     into(func(c *Config) *Profile { return &c.Profile }, oneOf(profiles, Fast, Normal, Unreliable)),
		},
		{
			Name: "slots", Value: "N", Default: "1", Usage: "up to N runs lead at a time, each with a lease",
			set: into(func(c *Config) *int { return &c.Slots }, count("slots", slots.Most)),
		},
		{
			Name: "on-renew-error", Value: "WHAT", Default: "retry", Usage: "retry, or stop at the first failed renewal",
			Choices: onRenewError,
			set:     into(func(c *Config) *bool { return &c.StopOnRenewError }, oneOf(onRenewError, false, true)),
		},
	}},
	{"When this host asks, and if somebody else leads", []Setting{
		{
			Name: "eligible", Value: "CMD", Usage: "ask for the lease only while CMD succeeds; CMD may take 10s",
			set: into(func(c *Config) *[]string { return &c.Eligible }, parseWords),
		},
		{
			Name: "wait", Common: true, Short: "w", Value: "D", Default: "0s", Usage: "stand by for D, or forever; -n is --wait 0",
			Choices: []string{"forever"},
			set:     into(func(c *Config) *time.Duration { return &c.Wait }, parseWait),
		},
		{
			Name: "retry", Value: "D", Derived: "ttl/6", Usage: "pause between attempts without a wake-up",
			set: into(func(c *Config) *time.Duration { return &c.Retry }, parsePositive),
		},
		{
			Name: "skip-exit-code", Short: "E", Value: "N", Default: "0", Usage: "exit status of a run that is skipped",
			set: func(c *Config, value string) (e *Error) {
				c.SkipExitCodeNamed = true
				c.SkipExitCode, e = parseExitCode(value)
				return e
			},
		},
		{
			Name: "rejoin", Common: true, Usage: "stand by again after a lease was lost or expired",
			set: into(func(c *Config) *bool { return &c.Rejoin }, parseBool),
		},
	}},
	{"The same crontab line on every host", []Setting{
		{
			Name: "once-per", Common: true, Value: "D", Usage: "one success per D, or per tick of '0 3 * * *'",
			Help: "one success per D, or per tick of a schedule: '0 3 * * *'; with --wait others run it if it fails; off: not even for half a minute",
			set: func(c *Config, value string) (e *Error) {
				if c.Repeats = value == "off"; c.Repeats {
					return nil
				}
				c.OncePer, c.Schedule, e = parseOncePer(value)
				return e
			},
		},
		{
			Name: "tick", Value: "TIME", Usage: "time that the run is for: RFC 3339, @SECONDS, microseconds",
			set: into(func(c *Config) *int64 { return &c.Tick }, parseTick),
		},
		{
			Name: "tries", Value: "N", Derived: strconv.Itoa(defaultTries), Usage: "at most N starts per tick, on all hosts together",
			set: into(func(c *Config) *int { return &c.Tries }, count("tries", 1000)),
		},
		{
			Name: "min-hold", Value: "D", Default: "0s", Usage: "keep the lease for at least D, also if the command ends sooner",
			set: into(func(c *Config) *time.Duration { return &c.MinHold }, parseDuration),
		},
	}},
	{"Stopping the command", []Setting{
		{
			Name: "signal", Short: "s", Value: "SIGNAL", Default: "TERM", Usage: "first signal when the command is stopped",
			Help: "first signal (default TERM, or the one leaderrun was sent)",
			set: func(c *Config, value string) (e *Error) {
				c.SignalNamed = true
				c.Signal, e = parseSignal(value)
				return e
			},
		},
		{
			Name: "kill-after", Common: true, Short: "k", Value: "D", Default: "10s", Usage: "time from first signal to SIGKILL; 0: at once",
			set: into(func(c *Config) *time.Duration { return &c.KillAfter }, parseDuration),
		},
		{
			Name: "lost-grace", Value: "D", Default: "1s", Usage: "time to SIGKILL if the lease was lost to another",
			set: into(func(c *Config) *time.Duration { return &c.LostGrace }, parseDuration),
		},
		{
			Name: "max-runtime", Common: true, Value: "D", Usage: "stop the command after D, with status 124",
			set: into(func(c *Config) *time.Duration { return &c.MaxRuntime }, parsePositive),
		},
		{
			Name: "leftovers", Value: "WHAT", Default: "stop", Usage: "descendants that outlive the command: stop, wait for, or leave them",
			Help:    "descendants that outlive the command: stop them, wait for them, or leave them, without any promise",
			Choices: leftovers,
			set:     into(func(c *Config) *candidate.Leftovers { return &c.Leftovers }, oneOf(leftovers, candidate.LeftoversStop, candidate.LeftoversWait, candidate.LeftoversLeave)),
		},
	}},
	{"Reporting", []Setting{
		{
			Name: "metrics-textfile", Value: "DIR", Usage: "write metrics for Prometheus' node exporter",
			set: into(func(c *Config) *string { return &c.MetricsTextfile }, parseText),
		},
		{
			Name: "metrics-listen", Value: "ADDR", Usage: "serve metrics and probes at [HOST]:PORT",
			set: into(func(c *Config) *string { return &c.MetricsListen }, parseListen),
		},
		{
			Name: "on-acquire", Value: "CMD", Usage: "run CMD when the command has started, for 10s at most",
			set: into(func(c *Config) *[]string { return &c.OnAcquire }, parseWords),
		},
		{
			Name: "on-lost", Value: "CMD", Usage: "run CMD when the lease was lost or expired",
			set: into(func(c *Config) *[]string { return &c.OnLost }, parseWords),
		},
		{
			Name: "on-end", Value: "CMD", Usage: "run CMD after the release, with how the run ended",
			set: into(func(c *Config) *[]string { return &c.OnEnd }, parseWords),
		},
		{
			Name: "on-skip", Value: "CMD", Usage: "run CMD when the run was skipped",
			set: into(func(c *Config) *[]string { return &c.OnSkip }, parseWords),
		},
		{
			Name: "ping", Value: "URL", Usage: "ask for URL/start at the start, URL/STATUS after the run",
			set: into(func(c *Config) *string { return &c.Ping }, parsePing),
		},
		{
			Name: "verbose", Common: true, Short: "v", Usage: "write what happens to stderr; given twice, every step",
			set: into(func(c *Config) *int { return &c.Verbose }, parseLevel),
		},
		{
			Name: "quiet", Short: "q", Usage: "write only errors to stderr",
			set: into(func(c *Config) *bool { return &c.Quiet }, parseBool),
		},
		{
			Name: "log-format", Value: "FORMAT", Default: "text", Usage: "format of messages: text or json", Choices: formats,
			set: into(func(c *Config) *bool { return &c.JSONLog }, oneOf(formats, false, true)),
		},
		{
			Name: fileSetting, Common: true, Value: "FILE", Usage: "YAML file of settings",
			Help: "YAML file (default /etc/leaderrun/leaderrun.yaml, then yours)",
		},
	}},
}

// fileSetting names the settings file, so it cannot be set in that file.
const fileSetting = "config"

// into returns a function that parses a value into a field.
func into[T any](field func(*Config) *T, parse func(string) (T, *Error)) func(*Config, string) *Error {
	return func(c *Config, value string) (e *Error) {
		*field(c), e = parse(value)
		return e
	}
}

// all lists the settings in the order of the help.
func all() []Setting {
	var list []Setting
	for _, g := range Groups {
		list = append(list, g.Settings...)
	}
	return list
}

// Find returns the setting with that name, or nil.
func Find(name string) *Setting {
	for _, s := range all() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// Names returns the names of all settings.
func Names() []string {
	var names []string
	for _, s := range all() {
		names = append(names, s.Name)
	}
	return names
}

// Default returns a Config with all defaults.
func Default() Config {
	var c Config
	for _, s := range all() {
		if s.Default != "" {
			_ = s.set(&c, s.Default) // tests read all defaults
		}
	}
	c.SignalNamed, c.SkipExitCodeNamed = false, false
	return c
}

// shownDefault returns the default as the help shows it.
func (s Setting) shownDefault() string { return cmp.Or(s.Default, s.Derived) }

// Set parses one setting; name is the name of its flag without dashes. The error is
// an *Error. An empty value is an error for every setting: an empty variable must not
// silently become the default.
func (c *Config) Set(name, value string) error {
	problem := c.set(name, value)
	if problem == nil {
		return nil
	}
	problem.Setting = name
	if !strings.Contains(problem.Problem, "line break") { // said already
		problem.Problem += location.Oddity(value)
	}
	if name != "store" && name != "ping" { // these are secrets, also if they are not addresses
		problem.Value = value
	}
	if setting := Find(name); setting != nil && setting.Short != "" {
		word, _, _ := strings.Cut(setting.Short+value, "=")
		if Find(word) != nil { // -key is read as -k ey
			problem.Hint = "did you mean --" + word + "? long flags have two dashes"
		}
	}
	return problem
}

func (c *Config) set(name, value string) *Error {
	if value == "" {
		return &Error{Problem: "is empty", Hint: "give it a value, or remove it"}
	}
	setting := Find(name)
	if setting == nil || setting.set == nil {
		return &Error{Problem: "no such setting", Hint: "leaderrun --help --all lists all of them"}
	}
	return setting.set(c, value)
}
