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
	if _, ok := os.LookupEnv("REDIS_HOST"); ok || namesSentinels("REDIS_") {
		return readRedisSet("REDIS_")
	}
	return redisSet{}, nil
}

func isMutexVariable(entry string) bool {
	name, value, _ := strings.Cut(entry, "=")
	return strings.HasPrefix(name, "MUTEX_REDIS_") && !serviceVariable(name, value)
}

// readRedisSet reads the variables that begin with p. Where they name sentinels,
// these say which server it is, and its own name does not count. No message shows
// the value of any but the ports and the database: people put whole addresses
// into hosts.
func readRedisSet(p string) (redisSet, error) {
	db, err := number(p+"DB", "0", 0, 1<<31-1)
	if err != nil {
		return redisSet{}, err
	}
	address := url.URL{Scheme: "redis", User: userinfo(os.Getenv(p+"USERNAME"), os.Getenv(p+"PASSWORD")), Path: "/" + db}
	source := p + "HOST"
	if namesSentinels(p) {
		source = p + "SENTINEL_HOST"
		address.Scheme, address.Path = "redis-sentinel", "/"+os.Getenv(p+"SENTINEL_NAME")+"/"+db
		address.Host, err = readSentinels(p)
	} else {
		address.Host, err = readHost(p)
	}
	if err != nil {
		return redisSet{}, err
	}
	set := redisSet{
		values: map[string]string{"store": address.String()},
		names:  map[string]string{"store": source, "prefix": p + "PREFIX"},
	}
	if prefix := os.Getenv(p + "PREFIX"); prefix != "" {
		set.values["prefix"] = prefix
	}
	return set, nil
}

func namesSentinels(p string) bool {
	return os.Getenv(p+"SENTINEL_HOST") != "" || os.Getenv(p+"SENTINEL_NAME") != ""
}

func readHost(p string) (string, error) {
	host, given := os.LookupEnv(p + "HOST")
	switch {
	case !given:
		return "", missing(p, "HOST")
	case host == "":
		return "", emptyVariable(p + "HOST")
	case !isHost(host):
		return "", &config.Error{Problem: p + "HOST is not a host name or an IP address", Cure: "put the port into " + p + "PORT, or name a whole address with --store"}
	}
	port, err := number(p+"PORT", "6379", 1, 65535)
	return net.JoinHostPort(host, port), err
}

// readSentinels reads a list of sentinels, each with a port of its own or that of
// all.
func readSentinels(p string) (string, error) {
	for _, name := range []string{"SENTINEL_HOST", "SENTINEL_NAME"} {
		if os.Getenv(p+name) == "" {
			return "", missing(p, name)
		}
	}
	port, err := number(p+"SENTINEL_PORT", "26379", 1, 65535)
	if err != nil {
		return "", err
	}
	hosts := strings.Split(os.Getenv(p+"SENTINEL_HOST"), ",")
	for i, text := range hosts {
		host, own, err := net.SplitHostPort(text)
		if err != nil {
			host, own = text, port
		}
		if !isHost(host) {
			return "", &config.Error{Problem: p + "SENTINEL_HOST is not a list of host names or IP addresses", Cure: "write HOST[:PORT],HOST[:PORT], or name a whole address with --store"}
		}
		hosts[i] = net.JoinHostPort(host, own) // a port that is none is the store's to refuse
	}
	return strings.Join(hosts, ","), nil
}

func missing(p, name string) error {
	return &config.Error{Problem: p + name + " is missing from the variables " + p + "*", Cure: "set it, or name the store with --store"}
}

func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return s != "" && !strings.ContainsAny(s, ",:/@?#[]%\\ \t\r\n")
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
func withPasswordFile(address string) (string, error) { return eachPassword(address, fromFile) }

// eachPassword replaces the passwords in the address of a store: the user's, and
// those among its parameters. They are given and taken as they are written in a
// URL. What is wrong with an address is the store's to say.
func eachPassword(address string, replace func(string) (string, error)) (string, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address, nil
	}
	end := strings.IndexAny(rest+"/", "/?#")
	authority, path := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if user, password, ok := strings.Cut(authority[:at], ":"); ok {
			password, err := replace(password)
			if err != nil {
				return "", err
			}
			authority = user + ":" + password + authority[at:]
		}
	}
	path, query, _ := strings.Cut(path, "?")
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		name, password, ok := strings.Cut(p, "=")
		if !ok || !strings.HasSuffix(name, "password") {
			continue
		}
		password, err := replace(password)
		if err != nil {
			return "", err
		}
		parameters[i] = name + "=" + password
	}
	if query != "" {
		path += "?" + strings.Join(parameters, "&")
	}
	return scheme + "://" + authority + path, nil
}

// fromFile returns the first line of the file that a password names, or the
// password itself when it names none.
func fromFile(password string) (string, error) {
	plain, err := url.PathUnescape(password)
	file, ok := strings.CutPrefix(plain, "file:")
	if err != nil || !ok {
		return password, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", &config.Error{Setting: "store", Problem: "the password file " + strconv.Quote(file) + " cannot be read: " + cause(err), Cure: "correct its path, or make it readable"}
	}
	first, _, _ := strings.Cut(string(content), "\n")
	if first = strings.TrimSuffix(first, "\r"); first == "" {
		return "", &config.Error{Setting: "store", Problem: "the password file " + strconv.Quote(file) + " is empty", Cure: "put the password into its first line"}
	}
	return strings.ReplaceAll(url.QueryEscape(first), "+", "%20"), nil
}
