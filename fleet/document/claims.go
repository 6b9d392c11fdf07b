package document

import "colonnade/fleet"

// claims is the order in which documents came to claim what only one document can have: an endpoint its URL, and a server its
// colo. Of several that claim the same, the first has it, whatever its name, until it claims something else or is deleted.
type claims struct {
	byKey map[string]claim
	last  uint64 // the highest order
}

type claim struct {
	value string
	order uint64
}

// put takes the claim of a new version of a document, and reports whether it is a new one. A document that claims what it has
// claimed before keeps its place.
func (c *claims) put(key string, doc *parsed) bool {
	value, some := doc.claim()
	if !some || c.byKey[key].order > 0 && c.byKey[key].value == value {
		return false
	}
	c.last++
	c.byKey[key] = claim{value: value, order: c.last}
	return true
}

// claim returns what a document of these kinds claims, within its colo.
func (doc *parsed) claim() (value string, some bool) {
	switch doc.id.Kind {
	case fleet.KindServer:
		return "", true
	case fleet.KindEndpoint:
		url, _ := doc.tree["url"].(string)
		value, _ = normalURL(url)
		return value, true
	}
	return "", false
}

// Claim returns the place of a document among those that claim a URL or a colo; 0 if it claims nothing.
func (s *Set) Claim(key string) uint64 { return s.claims.byKey[key].order }

// Reclaim gives a document, if it claims something, the place that Claim returned before; 0 is a new place, the last.
func (s *Set) Reclaim(key string, order uint64) {
	c, some := s.claims.byKey[key]
	if !some {
		return
	}
	if order == 0 {
		order = s.claims.last + 1
	}
	c.order = order
	s.claims.byKey[key] = c
	s.claims.last = max(s.claims.last, order)
	s.reorder(key)
}
