package settings

import (
	"cmp"
	"os"
	"slices"
)

// Check validates the settings of a run, and whether they fit the place where it is
// started: inside another leaderrun, or in Kubernetes.
func (s *Sources) Check(c *Config) error {
	return s.Locate(cmp.Or(c.Validate(), checkNesting(c), CheckStore(c)))
}

func checkNesting(c *Config) error {
	if !slices.Contains(OuterKeys(), c.Key) {
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
