package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Examine implements [lease.Examiner].
func (s *Store) Examine(ctx context.Context, _, _ time.Duration) []lease.Finding {
	sent := s.Now()
	a, err := s.ask(ctx, "GET", versionPath, nil)
	var version struct{ GitVersion string }
	if err == nil && (json.Unmarshal(a.text, &version) != nil || version.GitVersion == "") {
		err = errNoAnswer
	}
	if err != nil {
		return []lease.Finding{lease.Broken("server", s.storeError(ctx, "status", err))}
	}
	return []lease.Finding{
		lease.Passed("server", fmt.Sprintf("Kubernetes %s at %s, namespace %s; what was acknowledged is on the disks of most members of its etcd", lease.Readable(version.GitVersion), s.latest.Load().server, s.where.namespace)),
		clocks(time.UnixMilli(s.At(a.date.UnixMilli(), "").Wall), time.Now(), s.Now()-sent), //nolint:forbidigo // it compares wall clocks
	}
}

// clocks compares this host's clock with the API server's, which is in whole seconds.
func clocks(server, host time.Time, took time.Duration) lease.Finding {
	behind, ahead := server.Sub(host), host.Add(-took).Sub(server.Add(time.Second))
	if off := max(behind, ahead); off > network.Apart*time.Millisecond {
		return lease.Warned("clocks", fmt.Sprintf("the API server's differs from this host's by %s", off.Round(time.Second)),
			fmt.Sprintf("look after the time of all API servers: theirs may differ by %s, this host's does not matter", network.Apart*time.Millisecond-time.Second))
	}
	return lease.Passed("clocks", fmt.Sprintf("the API server's is that of this host; between API servers %s is allowed", network.Apart*time.Millisecond-time.Second))
}
