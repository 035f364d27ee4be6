package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/cas"
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
	renewed int64 // as in the annotation
}

// keeper is a [cas.Keeper].
type keeper struct{ *Store }

// Read implements [cas.Keeper].
func (k keeper) Read(ctx context.Context, key string) (cas.Row, error) {
	a, err := k.ask(ctx, "GET", k.path(key), nil)
	if a.missing() {
		return cas.Row{Value: cas.New(key), Kept: kept{}, Date: a.date}, nil
	}
	if err != nil {
		return cas.Row{}, err
	}
	return k.row(key, a.text, a.date)
}

// row reads an object.
func (s *Store) row(key string, text []byte, date time.Time) (r cas.Row, err error) {
	var o record
	is := kept{}
	if json.Unmarshal(text, &o) != nil || json.Unmarshal(text, &is.whole) != nil || o.Kind != "Lease" || o.Metadata.Version == "" {
		return r, errNoAnswer
	}
	r = cas.Row{Value: cas.New(key), Date: date}
	if state, ok := o.Metadata.Annotations[stateAnnotation]; ok {
		if r.Value, err = s.Parse(key, []byte(state)); err != nil {
			return r, untrusted{o.Metadata.Name, err}
		}
	}
	is.version, is.spec, is.renewed = o.Metadata.Version, o.Spec, r.Renewed
	r.Kept = is
	s.followSpec(&r, o.Spec)
	return r, nil
}

// followSpec changes the state if another program has written another holder into the spec.
// That holder has the lease until its duration after its renewTime, which is on its own
// clock, or for ever if the spec has no duration. If there is no holder, the lease is over.
func (s *Store) followSpec(r *cas.Row, now spec) {
	ours := ""
	if r.Grant != nil {
		ours = string(r.Grant.Holder)
	}
	if now.Holder == ours {
		return
	}
	instant := s.Instant(*r)
	if ours != "" {
		r.Revoke(true, leasestate.Instant{}) // without a time, so that each read gives the same state
		r.Called++                           // its holder must learn of it
	}
	if now.Holder == "" {
		return
	}
	ttl := now.Seconds * 1000
	renewed := now.Renewed.UnixMilli()
	if now.Seconds <= 0 || now.Seconds > math.MaxInt32 || now.Renewed.IsZero() {
		ttl, renewed = endless.Milliseconds(), instant.Up
	}
	r.Grant = &leasestate.Grant{
		Holder: lease.Holder(now.Holder), TTL: ttl, Boot: boot, Acquired: now.Acquired.UnixMilli(), AcquiredWall: now.Acquired.UnixMilli(),
		Expires: min(renewed+ttl, instant.Up+ttl+apart), Foreign: true,
	}
	if now.Acquired.IsZero() {
		r.Grant.Acquired, r.Grant.AcquiredWall = instant.Up, 0
	}
	if r.Renewed = -1; !now.Renewed.IsZero() {
		r.Renewed = -now.Renewed.UnixMilli() // never equal to a Renewed of leaderrun
	}
}

// endless is the TTL of a lease without a duration.
const endless = 365 * 24 * time.Hour

// Swap implements [cas.Keeper].
func (k keeper) Swap(ctx context.Context, r cas.Row) (now cas.Row, saved bool, err error) {
	was, v := r.Kept.(kept), r.Value
	next := was.spec.of(v)
	if v.Grant != nil && v.Grant.Foreign { // the other program's grant is only in the spec
		next, v.Grant, v.Renewed = was.spec, nil, was.renewed
	}
	state, err := json.Marshal(v)
	if err != nil {
		return r, false, err
	}
	a, err := k.write(ctx, r.Key, was, next, string(state))
	switch {
	case err == nil:
		return r, true, nil
	case !a.conflict() && !a.missing():
		return r, false, err
	}
	now, err = k.Read(ctx, r.Key)
	if err == nil && a.conflict() && now.Kept.(kept).version == was.version {
		err = errStubborn
	}
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

// of returns the spec for a value.
func (was spec) of(v cas.Value) spec {
	now, g := was, v.Grant
	if g == nil {
		now.Holder = ""
		return now
	}
	if now.Holder != string(g.Holder) && !now.Acquired.IsZero() {
		now.Transitions++
	}
	now.Holder = string(g.Holder)
	now.Acquired, now.Renewed = time.UnixMilli(g.AcquiredWall).UTC(), time.UnixMilli(v.Renewed).UTC()
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
