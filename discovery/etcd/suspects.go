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

// mayLive reports whether the node or engine that a document describes may go on living though its lease has run out.
// One that said before that it takes no more requests has left. A node that starts believes the store.
func (l *ledger) mayLive(key string, e entry) bool {
	if !e.leased || !l.serving {
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

func (l *ledger) suspect(key string, e entry, now time.Time) {
	l.keep(key, e, suspect)
	stays := serverGrace.String()
	if kindOf(key) == fleet.KindEndpoint {
		stays = "while its health check succeeds"
	}
	l.warn(now, "a document is gone that stood under a lease (it ran out, or the document was deleted); it stays in force for now", key, "key", key, "revision", e.noticed, "stays", stays)
}

// settleSuspects takes out of force what need not stay any longer, and reports whether there was any. t is the table
// with all.
func (l *ledger) settleSuspects(t *fleet.Table, now time.Time) bool {
	suspects := l.keys(suspect)
	some := false
	for _, key := range suspects {
		if reason := l.outdated(key, t, now); reason != "" {
			l.leave(key, reason, now)
			some = true
		}
	}
	return some
}

// outdated says why a suspect need not stay, or nothing.
func (l *ledger) outdated(key string, t *fleet.Table, now time.Time) string {
	if kindOf(key) != fleet.KindServer {
		return l.displaced(key, t)
	}
	colo := strings.Split(key, "/")[1]
	other := slices.ContainsFunc(t.Servers(colo), func(s *fleet.Server) bool {
		return s.State == fleet.StateActive && l.entries[string(fleet.KindServer)+"/"+colo+"/"+s.Node].absence == present
	})
	switch {
	case other:
		return "another server of its colo is active"
	case now.Sub(l.entries[key].since) >= serverGrace:
		return "it did not register again"
	}
	return ""
}

// displaced says whether an endpoint that is in the store has the URL of a suspect: there, something else runs now.
func (l *ledger) displaced(key string, t *fleet.Table) string {
	for _, c := range t.Conflicts {
		other := ""
		switch key {
		case c.Winner:
			other = c.Loser
		case c.Loser:
			other = c.Winner
		}
		if c.What == "url" && other != "" && l.entries[other].absence != suspect {
			return "its URL is registered as " + other
		}
	}
	return ""
}

// leave takes a suspect out of force.
func (l *ledger) leave(key, reason string, now time.Time) {
	l.drop(key, l.entries[key].noticed)
	l.warn(now, "a document whose lease ran out is out of force", key, "key", key, "reason", reason)
}

// forget takes suspects out of force that somebody has seen to be dead. What is no suspect (any more) stays.
func (l *ledger) forget(keys []string, now time.Time) {
	for _, key := range keys {
		if l.entries[key].absence == suspect {
			l.leave(key, "its health check fails", now)
		}
	}
}

// restartGrace gives suspects their time anew: while the store was away, nobody could register.
func (l *ledger) restartGrace(now time.Time) {
	for _, key := range l.keys(suspect) {
		e := l.entries[key]
		e.since = now
		l.entries[key] = e
	}
}

// nextExpiry returns when the first suspect's time is over; zero if there is none.
func (l *ledger) nextExpiry() (first time.Time) {
	for key, e := range l.entries {
		if end := e.since.Add(serverGrace); e.absence == suspect && kindOf(key) == fleet.KindServer && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}
