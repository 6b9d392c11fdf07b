package etcd

import (
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
)

// serverGrace is how long a server stays in force after its lease ran out: enough to register again, when the trouble
// was the store's and not the server's.
const serverGrace = 15 * time.Second

// mayBeAlive reports whether the node or engine that a document describes may go on living though its lease has run out.
// One that said before that it takes no more requests has left. A node that starts believes the store.
func (l *documentState) mayBeAlive(key string, e knownDocument) bool {
	if !e.leased || !l.published {
		return false
	}
	switch noun := l.docs.Noun(key).(type) {
	case *fleet.Server:
		return noun.State == fleet.StateActive
	case *fleet.Endpoint:
		return noun.Concurrency > 0
	}
	return false
}

func (l *documentState) keepExpired(key string, e knownDocument, now time.Time) {
	l.keep(key, e, leaseExpired)
	stays := serverGrace.String()
	if kindOf(key) == fleet.KindEndpoint {
		stays = "while its health check succeeds"
	}
	l.warn(now, "a document is gone that stood under a lease (it ran out, or the document was deleted); it stays in force for now", key, "key", key, "revision", e.goneAt, "stays", stays)
}

// dropExpired takes out of force what need not stay any longer, and reports whether there was any. t is the table
// with all.
func (l *documentState) dropExpired(t *fleet.Table, now time.Time) bool {
	suspects := l.absentKeys(leaseExpired)
	some := false
	for _, key := range suspects {
		if reason := l.reasonToDrop(key, t, now); reason != "" {
			l.logAndDrop(key, reason, now)
			some = true
		}
	}
	return some
}

// reasonToDrop says why a suspect need not stay, or nothing.
func (l *documentState) reasonToDrop(key string, t *fleet.Table, now time.Time) string {
	if kindOf(key) != fleet.KindServer {
		return l.urlTaken(key, t)
	}
	colo := strings.Split(key, "/")[1]
	other := slices.ContainsFunc(t.Servers(colo), func(s *fleet.Server) bool {
		return s.State == fleet.StateActive && l.known[string(fleet.KindServer)+"/"+colo+"/"+s.Node].absence == inStore
	})
	switch {
	case other:
		return "another server of its colo is active"
	case now.Sub(l.known[key].goneSince) >= serverGrace:
		return "it did not register again"
	}
	return ""
}

// urlTaken says whether an endpoint that is in the store has the URL of a suspect: there, something else runs now.
func (l *documentState) urlTaken(key string, t *fleet.Table) string {
	for _, c := range t.Conflicts {
		other := ""
		switch key {
		case c.Winner:
			other = c.Loser
		case c.Loser:
			other = c.Winner
		}
		if c.What == "url" && other != "" && l.known[other].absence != leaseExpired {
			return "its URL is registered as " + other
		}
	}
	return ""
}

// logAndDrop takes a suspect out of force.
func (l *documentState) logAndDrop(key, reason string, now time.Time) {
	l.drop(key, l.known[key].goneAt)
	l.warn(now, "a document whose lease ran out is out of force", key, "key", key, "reason", reason)
}

// dropDead takes suspects out of force that somebody has seen to be dead. What is no suspect (any more) stays.
func (l *documentState) dropDead(keys []string, now time.Time) {
	for _, key := range keys {
		if l.known[key].absence == leaseExpired {
			l.logAndDrop(key, "its health check fails", now)
		}
	}
}

// restartGrace gives suspects their time anew: while the store was away, nobody could register.
func (l *documentState) restartGrace(now time.Time) {
	for _, key := range l.absentKeys(leaseExpired) {
		e := l.known[key]
		e.goneSince = now
		l.known[key] = e
	}
}

// firstExpiry returns when the first suspect's time is over; zero if there is none.
func (l *documentState) firstExpiry() (first time.Time) {
	for key, e := range l.known {
		if end := e.goneSince.Add(serverGrace); e.absence == leaseExpired && kindOf(key) == fleet.KindServer && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}
