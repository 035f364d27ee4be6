package main

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// embedsScript matches a Go file's embedded Lua script and the variable that gets its text.
var embedsScript = regexp.MustCompile(`//go:embed (\S+\.lua)\s+(?:var )?(\w+) string`)

var (
	luaToken   = regexp.MustCompile(`--[^\n]*|'(?:[^'\\]|\\.)*'|\w+|[=~<>]=|\n|\S`)
	luaName    = regexp.MustCompile(`^[a-zA-Z_]`)
	luaKeyword = regexp.MustCompile(`^(?:local|function|if|elseif|else|for|while|repeat|until|do|then|return|end)$`)
	luaOperand = regexp.MustCompile(`^(?:\w+|[])])$`)
)

var luaOperators = map[string]string{
	"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "and": "or", "or": "and", "+": "-", "-": "+",
	"not": "", "true": "false", "false": "true", "min": "max", "max": "min",
}

// mistakesInScript returns the same mistakes for Lua. It needs scripts in which each statement has
// its own lines or is alone in its block.
func (p *source) mistakesInScript(path string) (all []mistake) {
	text := p.texts[path]
	tokens := luaToken.FindAllIndex(text, -1)
	token := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return "\n"
		}
		return string(text[tokens[i][0]:tokens[i][1]])
	}
	within, depth := "script", 0
	add := func(from, to int, with string, around [2]int) {
		all = append(all, mistake{function: within, from: from, to: to, with: with, shown: around})
	}
	for i, at := range tokens {
		word := token(i)
		switch other, ok := luaOperators[word]; {
		case ok && (word != "+" && word != "-" || luaOperand.MatchString(token(i-1))):
			add(at[0], at[1], other, [2]int{tokens[max(i-1, 0)][0], tokens[min(i+1, len(tokens)-1)][1]})
		case word == "if" || word == "elseif":
			end := i + 1
			simple := true
			for ; token(end) != "then"; end++ {
				simple = simple && luaOperators[token(end)] == "" && token(end) != "not"
			}
			if simple {
				add(at[1], at[1], " not", [2]int{at[0], tokens[end-1][1]})
			}
		case word == "function" && luaName.MatchString(token(i+1)):
			within = token(i + 1)
		case word == "\n" && at[1] < len(text) && text[at[1]] != ' ': // code in a function is indented
			within = "script"
		default:
			if n, err := strconv.Atoi(word); err == nil {
				add(at[0], at[1], strconv.Itoa(n+1), unbroken(text, at))
			}
		}
		depth += nesting(word)
		if depth > 0 || !luaBegins(token(i-1), word) {
			continue
		}
		end := i
		for depth := 0; depth > 0 || !luaEnds(token(end)); end++ {
			depth += nesting(token(end))
		}
		whole := [2]int{at[0], tokens[end-1][1]}
		add(whole[0], whole[1], "", whole)
	}
	return all
}

func nesting(word string) int { return strings.Count("([{", word) - strings.Count(")]}", word) }

// luaBegins reports whether a word begins an assignment or a call.
func luaBegins(before, word string) bool {
	return slices.Contains([]string{"\n", "then", "else", "do"}, before) && luaName.MatchString(word) && !luaKeyword.MatchString(word)
}

// luaEnds reports whether a word comes after a statement.
func luaEnds(word string) bool {
	return slices.Contains([]string{"\n", "end", "else", "elseif"}, word) || strings.HasPrefix(word, "--")
}

// unbroken returns the text around a place up to the next blanks.
func unbroken(text []byte, at []int) [2]int {
	from := bytes.LastIndexAny(text[:at[0]], " \n") + 1
	return [2]int{from, at[1] + bytes.IndexAny(text[at[1]:], " \n")}
}
