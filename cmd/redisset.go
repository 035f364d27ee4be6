package cmd

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/config"
)

// redisSet is what one set of Redis variables says, as settings. Its zero value
// says nothing.
type redisSet struct {
	values map[string]string // by setting
	names  map[string]string // the variable that people know, by setting
}

// findRedisSet reads the first set there is: MUTEX_REDIS_*, else REDIS_URL, else
// REDIS_*. A set is used alone: half of one address and half of another would
// be a store that nobody named. REDIS_* without a host is no set: it belongs to
// the application.
func findRedisSet() (redisSet, error) {
	if slices.ContainsFunc(os.Environ(), isMutexVariable) {
		return readRedisSet("MUTEX_REDIS_")
	}
	if address, ok := os.LookupEnv("REDIS_URL"); ok {
		if address == "" {
			return redisSet{}, emptyVariable("REDIS_URL")
		}
		return redisSet{values: map[string]string{"store": address}, names: map[string]string{"store": "REDIS_URL"}}, nil
	}
	if _, ok := os.LookupEnv("REDIS_HOST"); ok || sentinelVariable("REDIS_") != "" {
		return readRedisSet("REDIS_")
	}
	return redisSet{}, nil
}

func isMutexVariable(entry string) bool {
	name, value, _ := strings.Cut(entry, "=")
	return strings.HasPrefix(name, "MUTEX_REDIS_") && !serviceVariable(name, value)
}

// readRedisSet reads the variables that begin with p. No message shows the value
// of any but the port and the database: people put whole addresses into hosts.
func readRedisSet(p string) (redisSet, error) {
	if name := sentinelVariable(p); name != "" {
		return redisSet{}, &config.Error{Problem: name + " is set, but Redis Sentinel is not supported", Cure: "name the server itself with --store redis://HOST:6379/0"}
	}
	host, given := os.LookupEnv(p + "HOST")
	switch {
	case !given:
		return redisSet{}, &config.Error{Problem: p + "HOST is missing from the variables " + p + "*", Cure: "set it, or name the store with --store"}
	case host == "":
		return redisSet{}, emptyVariable(p + "HOST")
	case !isHost(host):
		return redisSet{}, &config.Error{Problem: p + "HOST is not a host name or an IP address", Cure: "put the port into " + p + "PORT, or name a whole address with --store"}
	}
	port, err := number(p+"PORT", "6379", 1, 65535)
	if err != nil {
		return redisSet{}, err
	}
	db, err := number(p+"DB", "0", 0, 1<<31-1)
	if err != nil {
		return redisSet{}, err
	}
	address := url.URL{Scheme: "redis", User: userinfo(os.Getenv(p+"USERNAME"), os.Getenv(p+"PASSWORD")), Host: net.JoinHostPort(host, port), Path: "/" + db}
	set := redisSet{
		values: map[string]string{"store": address.String()},
		names:  map[string]string{"store": p + "HOST", "prefix": p + "PREFIX"},
	}
	if prefix := os.Getenv(p + "PREFIX"); prefix != "" {
		set.values["prefix"] = prefix
	}
	return set, nil
}

// sentinelVariable is the name of a variable of the set that asks for Sentinel.
func sentinelVariable(p string) string {
	for _, name := range []string{p + "SENTINEL_HOST", p + "SENTINEL_PORT", p + "SENTINEL_NAME"} {
		if value := os.Getenv(name); value != "" && !serviceVariable(name, value) {
			return name
		}
	}
	return ""
}

func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return !strings.ContainsAny(s, ":/@?#[]%\\ \t\r\n")
}

// number reads a whole number from a variable; empty or Kubernetes' own means
// the default.
func number(name, byDefault string, least, most int) (string, error) {
	value := os.Getenv(name)
	if value == "" || serviceVariable(name, value) {
		return byDefault, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return "", &config.Error{Setting: "store", Source: name, Value: value, Problem: "is not a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most), Cure: "correct it, or name the store with --store"}
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
	return &config.Error{Problem: name + " is set, but empty", Cure: "give it a value or unset it, or name the store with --store"}
}

// serviceVariable reports whether a variable is one of those that Kubernetes
// sets for every service of the namespace: a service that is called redis or
// leaderrun must not change any setting.
func serviceVariable(name, value string) bool {
	if strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_SERVICE_PORT") || strings.Contains(name, "_SERVICE_PORT_") {
		return true
	}
	if strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
		return true
	}
	_, rest, _ := strings.Cut(name, "_PORT_")
	digits, protocol, _ := strings.Cut(rest, "_")
	if _, err := strconv.ParseUint(digits, 10, 16); err != nil {
		return false
	}
	protocol, _, _ = strings.Cut(protocol, "_")
	return protocol == "TCP" || protocol == "UDP" || protocol == "SCTP"
}

// withPasswordFile replaces a password of the form file:PATH in the address of
// a store by the first line of that file.
func withPasswordFile(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address, nil // what is wrong with an address is the store's to say
	}
	password, _ := u.User.Password()
	file, ok := strings.CutPrefix(password, "file:")
	if !ok {
		return address, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", &config.Error{Setting: "store", Problem: "the password file " + strconv.Quote(file) + " cannot be read: " + cause(err), Cure: "correct its path, or make it readable"}
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if first = strings.TrimSuffix(first, "\r"); first == "" {
		return "", &config.Error{Setting: "store", Problem: "the password file " + strconv.Quote(file) + " is empty", Cure: "put the password into its first line"}
	}
	u.User = url.UserPassword(u.User.Username(), first)
	return u.String(), nil
}
