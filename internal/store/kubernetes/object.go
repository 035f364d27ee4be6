package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

const (
	stateAnnotation = "leaderrun/state"
	keyAnnotation   = "leaderrun/key"
	// managedLabel is a label of all objects that leaderrun has written.
	managedLabel, managedBy = "app.kubernetes.io/managed-by", "leaderrun"
)

// record is what leaderrun reads of a Lease.
type record struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Version     string            `json:"resourceVersion"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec spec `json:"spec"`
}

// spec is what other programs read in a Lease, and kubectl shows.
type spec struct {
	Holder      string    `json:"holderIdentity"`
	Seconds     int64     `json:"leaseDurationSeconds"`
	Acquired    time.Time `json:"acquireTime"`
	Renewed     time.Time `json:"renewTime"`
	Transitions int64     `json:"leaseTransitions"`
}

// kept is the object of a row. Fields that leaderrun does not know stay as they are.
type kept struct {
	whole   map[string]any
	version string // "": the object does not exist
	spec    spec
	date    time.Time // of the answer
}

// keeper is a [keep.Keeper].
type keeper struct{ *Store }

// Read implements [keep.Keeper].
func (k keeper) Read(ctx context.Context, key string) (keep.Row, error) {
	a, err := k.ask(ctx, "GET", k.path(key), nil)
	if a.missing() {
		return keep.Row{State: rules.New(key), Kept: kept{date: a.date}, Now: k.At(a.date.UnixMilli(), "")}, nil
	}
	if err != nil {
		return keep.Row{}, err
	}
	return k.row(key, a.text, a.date)
}

// row reads an object.
func (s *Store) row(key string, text []byte, date time.Time) (r keep.Row, err error) {
	var o record
	is := kept{date: date}
	if json.Unmarshal(text, &o) != nil || json.Unmarshal(text, &is.whole) != nil || o.Kind != "Lease" || o.Metadata.Version == "" {
		return r, errNoAnswer
	}
	r = keep.Row{State: rules.New(key), Now: s.At(date.UnixMilli(), ""), Version: o.Metadata.Version}
	if state, ok := o.Metadata.Annotations[stateAnnotation]; ok {
		if r.State, err = s.Parse(key, []byte(state)); err != nil {
			return r, untrusted(o.Metadata.Name, err)
		}
	}
	is.version, is.spec = o.Metadata.Version, o.Spec
	r.Kept = is
	// Another holder in the spec is another program's, or a person's.
	if r.Grant == nil && o.Spec.Holder != "" || r.Grant != nil && o.Spec.Holder != string(r.Grant.Holder) {
		r.Overtake(o.Spec.shown(r.Now), r.Now)
	}
	return r, nil
}

// shown returns the lease of another program, which lasts for its duration after its renewTime,
// by that program's clock, or for ever without a duration.
func (is spec) shown(now rules.Instant) rules.Shown {
	shown := rules.Shown{Value: is.Holder}
	if !is.Acquired.IsZero() {
		shown.Acquired = is.Acquired.UnixMilli()
	}
	if is.Renewed.IsZero() {
		return shown
	}
	shown.Renewed = is.Renewed.UnixMilli()
	if is.Seconds > 0 && is.Seconds <= math.MaxInt32 {
		shown.TTL = is.Seconds * 1000
		shown.Expires = min(shown.Renewed+shown.TTL, now.Up+shown.TTL+network.Apart)
	}
	return shown
}

// Swap implements [keep.Keeper].
func (k keeper) Swap(ctx context.Context, r keep.Row, _ keep.Effect) (now keep.Row, saved bool, err error) {
	was, next := r.Kept.(kept), r.Kept.(kept).spec
	if r.Grant == nil || !r.Grant.Foreign { // another program's grant is only in the spec
		next = was.spec.of(r.State)
	}
	state, err := json.Marshal(r.State.Kept())
	if err != nil {
		return r, false, err
	}
	a, err := k.write(ctx, r.Key, was, next, string(state))
	switch {
	case err == nil:
		return r, true, nil
	case a.status != http.StatusConflict && !a.missing(): // another client has changed, created or deleted the object
		return r, false, err
	}
	now, err = k.Read(ctx, r.Key)
	return now, false, err
}

// write replaces or creates the object.
func (k keeper) write(ctx context.Context, key string, was kept, next spec, state string) (answer, error) {
	method, path := "PUT", k.path(key)
	whole := maps.Clone(was.whole)
	if was.version == "" {
		method, path = "POST", leases
		whole = map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
	}
	metadata := part(whole, "metadata")
	metadata["name"] = objectName(k.prefix, key)
	annotations := part(metadata, "annotations")
	annotations[stateAnnotation], annotations[keyAnnotation] = state, key
	part(metadata, "labels")[managedLabel] = managedBy
	if next != was.spec || was.version == "" {
		next.into(part(whole, "spec"))
	}
	return k.ask(ctx, method, path, whole)
}

// part replaces an object in an object by a copy, and returns the copy. The original may be
// needed again.
func part(of map[string]any, name string) map[string]any {
	is, _ := of[name].(map[string]any)
	is = maps.Clone(is)
	if is == nil {
		is = map[string]any{}
	}
	of[name] = is
	return is
}

// of returns the spec for a state.
func (was spec) of(st rules.State) spec {
	now, g := was, st.Grant
	if g == nil {
		now.Holder = ""
		return now
	}
	if now.Holder != string(g.Holder) && !now.Acquired.IsZero() {
		now.Transitions++
	}
	now.Holder = string(g.Holder)
	now.Acquired, now.Renewed = time.UnixMilli(g.AcquiredWall).UTC(), time.UnixMilli(st.Renewed).UTC()
	// Other programs count it from when they see the renewal. It must not be too short, so it
	// is rounded up and covers the whole minimum hold.
	now.Seconds = min(math.MaxInt32, (max(g.TTL, g.MinHoldUntil-g.Acquired)+999)/1000)
	return now
}

// into writes a spec into an object.
func (now spec) into(o map[string]any) {
	const micro = "2006-01-02T15:04:05.000000Z07:00"
	if o["holderIdentity"] = now.Holder; now.Holder == "" {
		delete(o, "holderIdentity")
	}
	if now.Renewed.IsZero() {
		return
	}
	o["leaseDurationSeconds"], o["leaseTransitions"] = now.Seconds, now.Transitions
	o["acquireTime"], o["renewTime"] = now.Acquired.Format(micro), now.Renewed.Format(micro)
}
