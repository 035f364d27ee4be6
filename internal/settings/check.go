package settings

import (
	"cmp"
	"os"
	"slices"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/slots"
)

// Check validates the settings of a run, and whether they fit the place where it is
// started: inside another leaderrun, or in Kubernetes.
func (s *Sources) Check(c *Config) error {
	return s.Locate(cmp.Or(c.Validate(), checkNesting(c), CheckStore(c), s.CheckZone(c)))
}

// CheckZone refuses a schedule in a time zone that this host's TZ does not name. Only runs and
// doctor check it, because the other verbs need no ticks.
func (s *Sources) CheckZone(c *Config) error {
	if c.Schedule == nil || c.Schedule.UnknownZone() == "" {
		return nil
	}
	return s.Locate(&Error{
		Setting: "once-per", Value: c.Schedule.String(),
		Problem: "TZ is " + strconv.Quote(c.Schedule.UnknownZone()) + ", and leaderrun knows only names such as Europe/Moscow",
		Hint:    "set TZ to a name, or write CRON_TZ=NAME in the schedule",
	})
}

func checkNesting(c *Config) error {
	if !slices.ContainsFunc(OuterKeys(), func(outer string) bool { return slots.Of(c.Key, outer, c.Slots) > 0 }) {
		return nil
	}
	return &Error{
		Setting: "key", Value: c.Key,
		Problem: "this command already runs under leaderrun with that key, and would wait for itself",
		Hint:    "run the command directly, or give another key with --key",
	}
}

// CheckStore refuses the default store where it cannot be meant.
func CheckStore(c *Config) error {
	if c.StoreSource != "" {
		return nil
	}
	_, inKubernetes := os.LookupEnv("KUBERNETES_SERVICE_HOST")
	where := "in Kubernetes"
	switch {
	case OuterKeys() != nil:
		where = "inside another leaderrun"
	case !inKubernetes:
		return nil
	}
	return &Error{
		Problem: "no store named, and " + where + " this host's own Redis is not a safe guess",
		Hint:    "name it with --store redis://HOST:6379/0, or with LEADERRUN_STORE",
	}
}
