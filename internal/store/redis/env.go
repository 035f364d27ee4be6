package redis

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

// environment has the variables of a process, as in os.Environ.
type environment []string

func (env environment) lookup(name string) (value string, ok bool) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (env environment) get(name string) string {
	value, _ := env.lookup(name)
	return value
}

// fromEnvironment reads the first set there is: MUTEX_REDIS_*, else REDIS_URL, else
// REDIS_*. Sets are not mixed: half of one address and half of another would be a store
// that nobody named. REDIS_* without a host is no set, since those variables are the
// application's.
func fromEnvironment(environ []string) (location.Found, error) {
	env := environment(environ)
	if slices.ContainsFunc(environ, isMutexVariable) {
		return env.readSet("MUTEX_REDIS_")
	}
	if url, ok := env.lookup("REDIS_URL"); ok {
		if url == "" {
			return location.Found{}, emptyVariable("REDIS_URL")
		}
		return location.Found{Values: map[string]string{"store": url}, Variables: map[string]string{"store": "REDIS_URL"}}, nil
	}
	if _, ok := env.lookup("REDIS_HOST"); ok || env.namesSentinels("REDIS_") {
		return env.readSet("REDIS_")
	}
	return location.Found{}, nil
}

func isMutexVariable(entry string) bool {
	name, value, _ := strings.Cut(entry, "=")
	return strings.HasPrefix(name, "MUTEX_REDIS_") && !location.IsKubernetes(name, value)
}

// readSet reads the variables that begin with p. If they name sentinels, a server's name is
// ignored. Messages show the values of ports and database only: people put whole addresses
// into HOST.
func (env environment) readSet(p string) (location.Found, error) {
	db, err := env.number(p+"DB", "0", 0, 1<<31-1)
	if err != nil {
		return location.Found{}, err
	}
	u := url.URL{Scheme: "redis", User: userinfo(env.get(p+"USERNAME"), env.get(p+"PASSWORD")), Path: "/" + db}
	source := p + "HOST"
	if env.namesSentinels(p) {
		source = p + "SENTINEL_HOST"
		u.Scheme, u.Path = "redis-sentinel", "/"+env.get(p+"SENTINEL_NAME")+"/"+db
		u.Host, err = env.readSentinels(p)
	} else {
		u.Host, err = env.readHost(p)
	}
	if err != nil {
		return location.Found{}, err
	}
	set := location.Found{
		Values:    map[string]string{"store": u.String()},
		Variables: map[string]string{"store": source, "prefix": p + "PREFIX"},
	}
	if prefix := env.get(p + "PREFIX"); prefix != "" {
		set.Values["prefix"] = prefix
	}
	return set, nil
}

func (env environment) namesSentinels(p string) bool {
	return env.get(p+"SENTINEL_HOST") != "" || env.get(p+"SENTINEL_NAME") != ""
}

func (env environment) readHost(p string) (string, error) {
	host, given := env.lookup(p + "HOST")
	switch {
	case !given:
		return "", missing(p, "HOST")
	case host == "":
		return "", emptyVariable(p + "HOST")
	case !isHost(host):
		return "", &location.Error{Problem: p + "HOST is not a host name or an IP address", Hint: "put the port into " + p + "PORT, or name a whole address with --store"}
	}
	port, err := env.number(p+"PORT", "6379", 1, 65535)
	return net.JoinHostPort(host, port), err
}

// readSentinels reads a list of sentinels, each with its own port or the common one.
func (env environment) readSentinels(p string) (string, error) {
	for _, name := range []string{"SENTINEL_HOST", "SENTINEL_NAME"} {
		if env.get(p+name) == "" {
			return "", missing(p, name)
		}
	}
	port, err := env.number(p+"SENTINEL_PORT", "26379", 1, 65535)
	if err != nil {
		return "", err
	}
	hosts := strings.Split(env.get(p+"SENTINEL_HOST"), ",")
	for i, text := range hosts {
		host, own, err := net.SplitHostPort(text)
		if err != nil {
			host, own = text, port
		}
		if !isHost(host) {
			return "", &location.Error{Problem: p + "SENTINEL_HOST is not a list of host names or IP addresses", Hint: "write HOST[:PORT],HOST[:PORT], or name a whole address with --store"}
		}
		hosts[i] = net.JoinHostPort(host, own) // the store refuses a bad port
	}
	return strings.Join(hosts, ","), nil
}

func missing(p, name string) error {
	return &location.Error{Problem: p + name + " is missing from the variables " + p + "*", Hint: "set it, or name the store with --store"}
}

func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return s != "" && !strings.ContainsAny(s, ",:/@?#[]%\\ \t\r\n")
}

// number reads a whole number from a variable. Without a value, or with one that Kubernetes
// set, it returns the default.
func (env environment) number(name, byDefault string, least, most int) (string, error) {
	value := env.get(name)
	if value == "" || location.IsKubernetes(name, value) {
		return byDefault, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return "", &location.Error{Variable: name, Value: value, Problem: "is not a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most), Hint: "correct it, or name the store with --store"}
	}
	return strconv.Itoa(n), nil
}

func userinfo(user, password string) *url.Userinfo {
	switch {
	case password != "":
		return url.UserPassword(user, password)
	case user != "":
		return url.User(user)
	}
	return nil
}

func emptyVariable(name string) error {
	return &location.Error{Problem: name + " is set, but empty", Hint: "give it a value or unset it, or name the store with --store"}
}
