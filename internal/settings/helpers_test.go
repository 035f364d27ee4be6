package settings

import "testing"

// loaded returns the settings read from these arguments and files.
func loaded(t *testing.T, args []string, files ...string) (Config, error) {
	t.Helper()
	flags := NewFlags()
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, s, err := Read(flags, files)
	c.Command = flags.Args()
	if err == nil {
		err = s.Check(&c)
	}
	return c, err
}
