package settings

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/schedule"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// longest is the longest duration that makes sense. Sums of several never overflow.
const longest = 10 * 365 * 24 * time.Hour

// parseName parses a key, or a prefix, which may hold the same.
func parseName(value string) (string, *Error) {
	if _, e := parseText(value); e != nil {
		return "", e
	}
	const hint = "use 1 to 200 of the characters A-Z a-z 0-9 . _ : / -"
	for _, r := range value {
		if !lease.ValidKey(string(r)) {
			return "", &Error{Problem: "the character " + strconv.QuoteRune(r) + " is not allowed", Hint: hint}
		}
	}
	if !lease.ValidKey(value) {
		return "", &Error{Problem: strconv.Itoa(len(value)) + " characters are too long", Hint: hint}
	}
	return value, nil
}

// parseText accepts any text but a flag: in `--metrics-textfile $DIR -- job` with DIR
// unset the directory would be "--".
func parseText(value string) (string, *Error) {
	if strings.HasPrefix(value, "-") {
		return "", &Error{Problem: "begins like a flag", Hint: "is the value itself missing? a variable in front of it may be empty"}
	}
	return value, nil
}

// parseAddress accepts a store's address. What an editor, echo or a file of variables has added to
// its ends no store could report without showing a secret.
func parseAddress(value string) (string, *Error) {
	if e := location.CheckSecret(value); e != nil {
		return "", &Error{Problem: e.Problem, Hint: e.Hint}
	}
	if location.Oddity(value) != "" {
		return "", &Error{Problem: "is not an address", Hint: "remove that from the value"}
	}
	return parseText(value)
}

// parsePing accepts a URL.
func parsePing(value string) (string, *Error) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", &Error{Problem: "is no URL of HTTP", Hint: "write it like https://hc-ping.com/UUID"}
	}
	return value, nil
}

// parseListen parses an address to listen on. The default host is loopback: other
// interfaces must be named.
func parseListen(value string) (string, *Error) {
	host, port, err := net.SplitHostPort(value)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || strconv.FormatUint(n, 10) != port {
		return "", &Error{Problem: "is not an address to listen at", Hint: "write :9090 for this host alone, or HOST:9090, or [::]:9090"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// parseWords splits a program and its arguments at blanks. It refuses what only a
// shell would understand.
func parseWords(value string) ([]string, *Error) {
	const hint = "write a script for what needs a shell, and name the script"
	if _, e := parseText(value); e != nil {
		return nil, e
	}
	if i := strings.IndexAny(value, "'\"\\$`"); i >= 0 {
		return nil, &Error{Problem: "contains " + value[i:i+1] + ", and no shell reads it", Hint: hint}
	}
	words := strings.Fields(value)
	if len(words) == 0 {
		return nil, &Error{Problem: "is blank", Hint: "name a program, or leave it out"}
	}
	const operators = "|&;<>"
	for _, word := range words {
		operator := word[:len(word)-len(strings.TrimLeft(word, operators+"0123456789"))] // as in 2>/dev/null
		if strings.HasSuffix(word, ";") {
			operator = ";"
		}
		if strings.ContainsAny(operator, operators) {
			return nil, &Error{Problem: "contains " + operator + ", and no shell reads it", Hint: hint}
		}
	}
	return words, nil
}

// parseDuration parses a duration with a unit, from 0 to ten years, in whole
// milliseconds, the unit of the stores. Only 0 needs no unit.
func parseDuration(value string) (time.Duration, *Error) {
	const hint = "write it like 500ms, 30s, 5m or 24h; a week is 168h"
	d, err := time.ParseDuration(value)
	switch {
	case err != nil && value == "forever":
		return 0, &Error{Problem: "only --wait can be forever", Hint: hint}
	case err != nil && strings.Trim(value, "0123456789.") == "":
		return 0, &Error{Problem: "a duration needs a unit", Hint: hint}
	case err != nil:
		return 0, &Error{Problem: "is not a duration", Hint: hint}
	case d < 0:
		return 0, &Error{Problem: "a duration cannot be negative", Hint: hint}
	case d > longest:
		return 0, &Error{Problem: "is longer than ten years", Hint: hint}
	case d%time.Millisecond != 0:
		return 0, &Error{Problem: "is finer than a millisecond", Hint: hint}
	}
	return d, nil
}

// Duration parses the duration of a flag that is not a setting. The error is an
// *Error.
func Duration(name, value string) (time.Duration, error) {
	d, e := parseDuration(value)
	if e != nil {
		e.Setting, e.Value = name, value
		return 0, e
	}
	return d, nil
}

func parsePositive(value string) (time.Duration, *Error) {
	d, e := parseDuration(value)
	if e == nil && d == 0 {
		e = &Error{Problem: "must be longer than 0", Hint: "write it like 500ms, 30s or 5m, or leave it out"}
	}
	return d, e
}

func parseOncePer(value string) (time.Duration, *schedule.Schedule, *Error) {
	const hint = "write a duration like 1h or 24h, a schedule in quotes, like '0 3 * * *' or 'CRON_TZ=Europe/Berlin @daily', or off"
	if strings.ContainsAny(value, " \t*@=") {
		s, err := schedule.Parse(value)
		if ambiguous, ok := errors.AsType[*schedule.AmbiguousError](err); ok {
			return 0, nil, &Error{Problem: ambiguous.Error(), Hint: ambiguous.Hint()}
		}
		if err != nil {
			return 0, nil, &Error{Problem: "is no schedule: " + err.Error(), Hint: hint}
		}
		return 0, s, nil
	}
	d, e := parsePositive(value)
	if e != nil {
		e.Hint = hint
	}
	return d, nil, e
}

// parseTick parses a time and returns milliseconds since 1970. A bare number is
// microseconds, as systemd writes them. A time that is off by a factor of a thousand, or
// more than a day ahead of this host's clock, is refused as a mistake: the stores count
// no such tick as served.
func parseTick(value string) (int64, *Error) {
	const hint = "write 2026-03-01T03:00:00Z, seconds since 1970 as @1772334000, or microseconds"
	var at time.Time
	seconds, inSeconds := strings.CutPrefix(value, "@")
	n, err := strconv.ParseUint(seconds, 10, 63)
	switch {
	case err == nil && inSeconds:
		at = time.Unix(int64(min(n, 1<<40)), 0)
	case err == nil:
		at = time.UnixMicro(int64(n))
	default:
		if at, err = time.Parse(time.RFC3339, value); err != nil {
			return 0, &Error{Problem: "is not a time", Hint: hint}
		}
	}
	switch {
	case at.Year() < 2001:
		return 0, &Error{Problem: "is before 2001", Hint: hint}
	case time.Until(at) > 24*time.Hour: //nolint:forbidigo // it finds typing errors only
		return 0, &Error{Problem: "is more than a day ahead of this host's clock", Hint: hint}
	}
	return at.UnixMilli(), nil
}

func parseWait(value string) (time.Duration, *Error) {
	if value == "forever" {
		return candidate.Forever, nil
	}
	d, e := parseDuration(value)
	if e != nil {
		e.Hint = "write it like 30s, 5m or 24h, or forever"
	}
	return d, e
}

func parseExitCode(value string) (int, *Error) {
	n, err := strconv.ParseUint(value, 10, 8)
	if err != nil {
		return 0, &Error{Problem: "is not an exit status", Hint: "use a number from 0 to 255"}
	}
	return int(n), nil
}

// count returns a parser of a number from 1 to most. what is counted.
func count(what string, most int) func(string) (int, *Error) {
	return func(value string) (int, *Error) {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n < 1 || n > uint64(most) {
			return 0, &Error{Problem: "is not a number of " + what, Hint: "use a number from 1 to " + strconv.Itoa(most)}
		}
		return int(n), nil
	}
}

func parseBool(value string) (bool, *Error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, &Error{Problem: "is neither true nor false", Hint: "use true or false"}
	}
	return b, nil
}

// twice is the value of a switch that was given twice.
const twice = "2"

// parseLevel reads a switch that may be given twice.
func parseLevel(value string) (int, *Error) {
	if value == twice {
		return 2, nil
	}
	on, err := parseBool(value)
	if on {
		return 1, nil
	}
	return 0, err
}

// oneOf returns a parser of words, which stand for the values in the same order.
func oneOf[T any](words []string, values ...T) func(string) (T, *Error) {
	return func(value string) (t T, e *Error) {
		if i := slices.Index(words, value); i >= 0 {
			return values[i], nil
		}
		last := len(words) - 1
		others := strings.Join(words[:last], ", ")
		return t, &Error{Problem: "is neither " + others + " nor " + words[last], Hint: "use " + others + " or " + words[last]}
	}
}

// parseSignal parses a signal as kill(1) and timeout(1) do: TERM, SIGTERM, term
// or 15. KILL is allowed and means no grace at all. 0, which sends nothing, is
// refused, and so are the job control signals: they do not end a command, so every
// stop would last until SIGKILL.
func parseSignal(value string) (syscall.Signal, *Error) {
	const highest = 64 // the last real-time signal of Linux
	s := signalNamed(strings.TrimPrefix(strings.ToUpper(value), "SIG"))
	known := s != 0
	if n, err := strconv.ParseUint(value, 10, 8); err == nil && n <= highest {
		s, known = syscall.Signal(n), true
	}
	const hint = "use TERM, INT, HUP, QUIT, USR1, USR2, KILL, another name of kill -l, or its number"
	switch {
	case !known:
		return 0, &Error{Problem: "is not a signal", Hint: hint}
	case s == 0, s == syscall.SIGSTOP, s == syscall.SIGTSTP, s == syscall.SIGTTIN, s == syscall.SIGTTOU, s == syscall.SIGCONT:
		return 0, &Error{Problem: "is not a signal that asks a command to end", Hint: hint}
	}
	return s, nil
}

// signalNamed returns the signal with a name of kill -l, without SIG; 0 if there is none.
func signalNamed(name string) syscall.Signal {
	switch name { // other names of some
	case "IOT":
		name = "ABRT"
	case "POLL":
		name = "IO"
	}
	return unix.SignalNum("SIG" + name)
}
