package runner

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/internal/guard"
)

// IsEnder reports whether this process is to be an ender: the runner that started its guard is
// dead, and so is the command's tree.
func IsEnder() bool {
	_, ender := os.LookupEnv(guard.EnderMarker)
	return ender && os.Args[0] == guard.EnderName
}

var errNoGuard = errors.New(guard.EnderMarker + " is set, which only leaderrun does for a process of its own")

// Told returns what the dead runner wanted the ender to know, and its last kill-by.
func Told() (told []byte, killBy time.Duration, err error) {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 { // a terminal would be read for ever
		return nil, 0, errNoGuard
	}
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, 0, err
	}
	at, told, ok := guard.DecodeEnder(b)
	if !ok {
		return nil, 0, errNoGuard
	}
	return told, time.Duration(at), nil
}
