package location

import (
	"strings"
	"unicode"
)

const hintLineBreak = "remove it, probably at its end: printf makes a secret without one, echo does not"

// Oddity says what is invisible or easily overlooked at the ends of a value: blanks, line breaks, and
// quotes that no shell has removed, as in a file for docker --env-file. It returns "" if there is
// nothing, else text to put behind a message.
func Oddity(value string) string {
	first, last := strings.TrimLeftFunc(value, unicode.IsSpace), strings.TrimRightFunc(value, unicode.IsSpace)
	switch {
	case strings.ContainsAny(value, "\r\n"):
		return ": it has a line break in it"
	case first != value:
		return ": it begins with a blank"
	case last != value:
		return ": it ends with a blank"
	case value != "" && strings.ContainsAny(value[:1], `'"`):
		return ": it begins with a quote, which is part of the value where no shell reads it (docker --env-file, EnvironmentFile of old systemd)"
	case value != "" && strings.ContainsAny(value[len(value)-1:], `'"`):
		return ": it ends with a quote"
	}
	return ""
}

// CheckSecret refuses a password with a line break, which an editor or echo has added: the server's
// answer would be that it is wrong, and no message may show it.
func CheckSecret(text string) *Error {
	if strings.ContainsAny(text, "\r\n") {
		return &Error{Problem: "has a line break in it", Hint: hintLineBreak}
	}
	return nil
}
