package lease

import "time"

// Sight is what a candidate has seen of a key, by its own clock. It is not safe for concurrent use.
type Sight struct {
	seen  Seen
	until time.Duration // when the lease in seen ends
}

// Granted records a lease of the candidate itself. Only token and TTL of it matter: its tree is gone
// before the candidate asks again.
func (s *Sight) Granted(l Lease) { s.seen = Seen{Token: l.Token, TTL: l.TTL} }

// Denied records what a denial at this time says: who holds the key, and until when. For the same
// lease the first denial counts: the store's clock may have been set since.
func (s *Sight) Denied(c Condition, at time.Duration) {
	if c.Why.Taken() && (c.Token > s.seen.Token || c.Token == s.seen.Token && c.Expires != s.seen.Expires) {
		s.seen = Seen{Token: c.Token, TTL: c.TTL, Expires: c.Expires}
		s.until = at + c.Remaining
	}
}

// At returns what was seen, for a request at this time.
func (s *Sight) At(now time.Duration) Seen {
	seen := s.seen
	seen.Left = max(0, s.until-now)
	return seen
}
