package settings

// given is the value of a setting, and the place where it is given: in words, too.
type given struct {
	value  string
	place  place
	source string
}

// A place is where a setting is given. A smaller one wins.
type place int

const (
	onCommandLine place = iota
	inEnvironment
	inFile
	inFound // in variables of other programs
	nowhere
)
