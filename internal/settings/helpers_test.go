package settings

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// loaded returns the settings read from these arguments and files.
func loaded(t *testing.T, args []string, files ...string) (Config, error) {
	t.Helper()
	flags := NewFlags()
	must.Succeed(t, flags.Parse(args))
	c, s, err := Read(flags, files)
	c.Command = flags.Args()
	if err == nil {
		err = s.Check(&c)
	}
	return c, err
}
