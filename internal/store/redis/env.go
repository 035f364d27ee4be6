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

const own, shared = "MUTEX_REDIS_", "REDIS_"

// environment has the variables of a process, as in os.Environ.
type environment []string

// get returns the variable MUTEX_REDIS_X, or REDIS_X if that has no value, and its name. Without
// either the name is REDIS_X. What Kubernetes sets for a service is no value.
func (env environment) get(x string) (name, value string) {
	for _, name := range []string{own + x, shared + x} {
		if value, ok := env.lookup(name); ok && value != "" && !location.IsKubernetes(name, value) {
			return name, value
		}
	}
	return shared + x, ""
}

func (env environment) value(x string) string {
	_, value := env.get(x)
	return value
}

func (env environment) lookup(name string) (value string, ok bool) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// fromEnvironment reads the store that MUTEX_REDIS_* and REDIS_* name, each variable of the first
// kind before that of the second, else REDIS_URL. REDIS_* without a host names no store, since
// those variables are the application's.
func fromEnvironment(environ []string) (found location.Found, err error) {
	env := environment(environ)
	address, isURL := env.lookup("REDIS_URL")
	switch {
	case env.value("SENTINEL_HOST") != "" || env.value("SENTINEL_NAME") != "":
		found, err = env.readSentinels()
	case env.value("HOST") != "":
		found, err = env.readServer()
	case slices.ContainsFunc(environ, isOwn):
		if _, ok := env.lookup(own + "HOST"); ok {
			return location.Found{}, emptyVariable(own + "HOST")
		}
		return location.Found{}, missing(own, "HOST")
	case isURL && address == "":
		return location.Found{}, emptyVariable("REDIS_URL")
	case isURL:
		found = location.Found{
			Values:    map[string]string{"store": address},
			Variables: map[string]string{"store": "REDIS_URL"},
		}
	default:
		if _, ok := env.lookup("REDIS_HOST"); ok {
			err = emptyVariable("REDIS_HOST")
		}
		return location.Found{}, err
	}
	if err != nil {
		return location.Found{}, err
	}
	name, prefix := env.get("PREFIX")
	found.Variables["prefix"] = name
	if prefix != "" {
		found.Values["prefix"] = prefix
	}
	return found, nil
}

// isOwn reports whether a variable is one of MUTEX_REDIS_* that does not make sense without a host.
func isOwn(entry string) bool {
	name, value, _ := strings.Cut(entry, "=")
	return strings.HasPrefix(name, own) && name != own+"PREFIX" && !location.IsKubernetes(name, value)
}

// readServer reads the address of a server. Messages show the values of ports and database
// only: people put whole addresses into HOST.
func (env environment) readServer() (location.Found, error) {
	name, host := env.get("HOST")
	if !isHost(host) {
		return location.Found{}, &location.Error{
			Problem: name + " is not a host name or an IP address" + location.Oddity(host),
			Hint:    "put the port into " + strings.TrimSuffix(name, "HOST") + "PORT, or name a whole address with --store",
		}
	}
	port, err := env.number("PORT", "6379", 1, 65535)
	if err != nil {
		return location.Found{}, err
	}
	return env.found(url.URL{Scheme: "redis", Host: net.JoinHostPort(host, port)}, "HOST", "PORT")
}

// readSentinels reads a list of sentinels, each with its own port or the common one. The host of a
// server does not count then.
func (env environment) readSentinels() (location.Found, error) {
	for x, other := range map[string]string{"SENTINEL_HOST": "SENTINEL_NAME", "SENTINEL_NAME": "SENTINEL_HOST"} {
		if env.value(x) == "" {
			name, _ := env.get(other)
			return location.Found{}, missing(strings.TrimSuffix(name, other), x)
		}
	}
	port, err := env.number("SENTINEL_PORT", "26379", 1, 65535)
	if err != nil {
		return location.Found{}, err
	}
	name, list := env.get("SENTINEL_HOST")
	hosts := strings.Split(list, ",")
	for i, text := range hosts {
		host, own, err := net.SplitHostPort(text)
		if err != nil {
			host, own = text, port
		}
		if !isHost(host) {
			return location.Found{}, &location.Error{
				Problem: name + " is not a list of host names or IP addresses" + location.Oddity(text),
				Hint:    "write HOST[:PORT],HOST[:PORT], or name a whole address with --store",
			}
		}
		hosts[i] = net.JoinHostPort(host, own) // the store refuses a bad port
	}
	u := url.URL{Scheme: "redis-sentinel", Host: strings.Join(hosts, ","), Path: "/" + env.value("SENTINEL_NAME")}
	return env.found(u, "SENTINEL_HOST", "SENTINEL_PORT")
}

// found adds user, password and database to an address. host and port are the variables that it
// comes from.
func (env environment) found(u url.URL, host, port string) (location.Found, error) {
	db, err := env.number("DB", "0", 0, 1<<31-1)
	if err != nil {
		return location.Found{}, err
	}
	u.Path += "/" + db
	passwordIn, password := env.get("PASSWORD")
	if err := location.CheckSecret(password); err != nil {
		return location.Found{}, &location.Error{Problem: passwordIn + " " + err.Problem, Hint: err.Hint}
	}
	if user := env.value("USERNAME"); password != "" {
		u.User = url.UserPassword(user, password)
	} else if user != "" {
		u.User = url.User(user)
	}
	variables := map[string]string{}
	for part, x := range map[string]string{"store": host, "host": host, "port": port, "user": "USERNAME", "password": "PASSWORD", "database": "DB"} {
		variables[part], _ = env.get(x)
	}
	return location.Found{Values: map[string]string{"store": u.String()}, Variables: variables}, nil
}

func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return s != "" && !strings.ContainsAny(s, ",:/@?#[]%\\'\" \t\r\n")
}

// number reads a whole number from a variable. Without a value it returns the default.
func (env environment) number(x, byDefault string, least, most int) (string, error) {
	name, value := env.get(x)
	if value == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return "", &location.Error{Variable: name, Value: value, Problem: "is not a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most) + location.Oddity(value), Hint: "correct it, or name the store with --store"}
	}
	return strconv.Itoa(n), nil
}

func missing(p, x string) error {
	return &location.Error{Problem: p + x + " is missing from the variables " + p + "*", Hint: "set it, or name the store with --store"}
}

func emptyVariable(name string) error {
	return &location.Error{Problem: name + " is set, but empty", Hint: "give it a value or unset it, or name the store with --store"}
}
