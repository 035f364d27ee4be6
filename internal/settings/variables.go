package settings

import (
	"os"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Variables in the environment of a command or a hook. A leaderrun inside that command
// reads some of them. Only LEADERRUN_KEY is also a setting.
const (
	KeyVariable       = "LEADERRUN_KEY"
	HolderVariable    = "LEADERRUN_HOLDER"
	TokenVariable     = "LEADERRUN_TOKEN"
	SlotVariable      = "LEADERRUN_SLOT"       // with --slots
	LeaseFileVariable = "LEADERRUN_LEASE_FILE" // absent if it could not be created
	OuterKeysVariable = "LEADERRUN_OUTER_KEYS" // of all outer leaderruns but the innermost, separated by commas
	EventVariable     = "LEADERRUN_EVENT"      // of a hook
	OutcomeVariable   = "LEADERRUN_OUTCOME"    // of a hook
	ExitVariable      = "LEADERRUN_EXIT"       // of the hook at the end, as the next two
	StartedVariable   = "LEADERRUN_STARTED"
	EndedVariable     = "LEADERRUN_ENDED"
)

// OuterKeys returns the keys of all leaderruns that this one runs inside.
// LEADERRUN_KEY without LEADERRUN_HOLDER is only a setting.
func OuterKeys() []string {
	if _, nested := os.LookupEnv(HolderVariable); !nested {
		return nil
	}
	keys := strings.Split(os.Getenv(OuterKeysVariable), ",")
	return append(keys, os.Getenv(KeyVariable))
}

// variableOf returns the environment variable of a setting.
func variableOf(setting string) string {
	return "LEADERRUN_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// checkVariables refuses unknown LEADERRUN_ variables: a misspelt setting must not
// silently become the default.
func checkVariables(environ []string) error {
	known := []string{HolderVariable, TokenVariable, SlotVariable, OuterKeysVariable, LeaseFileVariable, EventVariable, OutcomeVariable,
		ExitVariable, StartedVariable, EndedVariable}
	for _, name := range Names() {
		known = append(known, variableOf(name))
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "LEADERRUN_") || slices.Contains(known, name) || location.IsKubernetes(name, value) {
			continue
		}
		e := &Error{Problem: name + " is set, but is no setting", Hint: "unset it; leaderrun --help --all lists the settings"}
		word := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "LEADERRUN_"), "_", "-"))
		if other := Suggest(word, Names()); other != "" {
			e.Hint = "did you mean " + variableOf(other) + "? if not, unset it"
		}
		return e
	}
	return nil
}
