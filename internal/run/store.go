package run

import (
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/store"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// StoreTimeout bounds one question of a verb. A run with the default TTL of 30 s tries for as long
// before it gives up: TTL/6.
const StoreTimeout = 5 * time.Second

// OpenExisting opens the store for a verb. It creates no table or directory.
func OpenExisting(c settings.Config, log *slog.Logger) (location.Store, error) {
	return open(c, log, true)
}

// open opens the store that the settings name. No request is sent yet.
func open(c settings.Config, log *slog.Logger, mustExist bool) (location.Store, error) {
	return store.Open(location.Options{
		URL: c.Store, Prefix: c.Prefix, MustExist: mustExist,
		Warn: func(problem, hint string) { log.Warn(problem, observe.EventAdvice, observe.HintAttr, hint) },
	})
}
