package etcd

import (
	"time"

	"colonnade/fleet"
)

// mayBeAlive reports whether the node or engine of a document may be alive although its lease expired. One that had said
// that it takes no more requests has left. A node that has just started believes the store.
func (s *documentState) mayBeAlive(key string, k knownDocument) bool {
	if !k.leased || !s.published {
		return false
	}
	switch noun := s.docs.Noun(key).(type) {
	case *fleet.Server:
		return noun.State == fleet.StateActive
	case *fleet.Endpoint:
		return noun.Serves()
	}
	return false
}

// keepExpired keeps a document in force whose lease expired.
func (s *documentState) keepExpired(key string, k knownDocument, now time.Time) {
	s.keep(key, k, leaseExpired)
	until := "while its health check succeeds"
	if kindOf(key) == fleet.KindServer {
		until = "while it answers"
	}
	s.warn(now, "leased document gone from etcd; it stays in force", key, "key", key, "revision", k.goneAt, "stays", until)
}

// dropExpired takes endpoints out of force whose leases expired and whose URLs were registered anew, and reports whether
// there was any. t is the table with all of them.
func (s *documentState) dropExpired(t *fleet.Table, now time.Time) bool {
	some := false
	for _, key := range s.absentKeys(leaseExpired) {
		if other := s.urlTaken(key, t); other != "" {
			s.logAndDrop(key, "its URL is registered as "+other, now)
			some = true
		}
	}
	return some
}

// otherClaimant returns the document that is in conflict with key; empty if c is not about key.
func otherClaimant(c fleet.Conflict, key string) string {
	switch key {
	case c.Winner:
		return c.Loser
	case c.Loser:
		return c.Winner
	}
	return ""
}

// urlTaken returns the key of the endpoint in the store that has the URL of one whose lease expired; empty if none has.
func (s *documentState) urlTaken(key string, t *fleet.Table) string {
	for _, c := range t.Conflicts {
		other := otherClaimant(c, key)
		if c.What == fleet.ConflictURL && other != "" && s.known[other].absence != leaseExpired {
			return other
		}
	}
	return ""
}

func (s *documentState) logAndDrop(key, reason string, now time.Time) {
	s.drop(key, s.known[key].goneAt)
	s.warn(now, "document with an expired lease out of force", key, "key", key, "reason", reason)
}

// dropDead takes documents out of force that are known to be dead after their leases expired. Others stay.
func (s *documentState) dropDead(keys []string, reason string, now time.Time) {
	for _, key := range keys {
		if s.known[key].absence == leaseExpired {
			s.logAndDrop(key, reason, now)
		}
	}
}
