package location

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const hintLineBreak = "remove it, probably at its end: printf makes a secret without one, echo does not"

// Oddity says what is invisible or easily overlooked in a value: line breaks, marks of editors, blanks, and
// quotes that no shell has removed, as in a file for docker --env-file. It returns "" if there is
// nothing, else text to put behind a message.
func Oddity(value string) string {
	first, last := strings.TrimLeftFunc(value, unicode.IsSpace), strings.TrimRightFunc(value, unicode.IsSpace)
	switch {
	case strings.ContainsAny(value, "\r\n"):
		return ": it has a line break in it"
	case strings.HasPrefix(value, "\ufeff"):
		return ": it begins with a byte order mark, which editors add to a file"
	case first != value:
		return ": it begins with a blank"
	case last != value:
		return ": it ends with a blank"
	case value != "" && strings.ContainsAny(value[:1], `'"`):
		return ": it begins with a quote, which is part of the value where no shell reads it (docker --env-file, EnvironmentFile of old systemd)"
	case value != "" && strings.ContainsAny(value[len(value)-1:], `'"`):
		return ": it ends with a quote"
	case !utf8.ValidString(value):
		return ": it is not in UTF-8"
	case strings.ContainsFunc(value, unicode.IsControl):
		return ": it has a control character in it"
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
