package etcd

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/testkit"
)

// list gives a node the store as one list has it, and removes what the store lacks.
func list(s *documentState, store map[string]Stored, revision int64, now time.Time) {
	listed := slices.Collect(maps.Values(store))
	for _, d := range s.inClaimOrder(listed) {
		s.put(d, now)
	}
	for _, key := range s.missing(listed) {
		s.remove(key, revision, now)
	}
}

// fresh returns a node that starts without a file of an earlier run.
func (s *stateTest) fresh() *documentState {
	n := newDocumentState(slog.New(slog.DiscardHandler))
	list(n, s.store, s.revision, s.now)
	return n
}

// restarted returns a node that starts with the file of this one.
func (s *stateTest) restarted() *documentState {
	n := newDocumentState(slog.New(slog.DiscardHandler))
	for _, d := range s.takeSnapshot("", s.revision).Documents {
		n.restore(d, s.now)
	}
	list(n, s.store, s.revision, s.now)
	return n
}

// inForce returns the endpoints and servers of ams that are in force, and the losers of all conflicts.
func inForce(t *fleet.Table) (keys, losers []string) {
	for _, e := range t.EndpointsOf("ams") {
		keys = append(keys, "endpoints/ams/"+e.ID)
	}
	for _, s := range t.Servers("ams") {
		keys = append(keys, "servers/ams/"+s.Node)
	}
	for _, c := range t.Conflicts {
		losers = append(losers, c.Loser+" for "+c.Winner)
	}
	return keys, losers
}

// wantInForce checks this node, one that starts with its file, and one that starts without.
func (s *stateTest) wantInForce(keys, losers []string) {
	s.t.Helper()
	for who, table := range map[string]*fleet.Table{"the node": s.after(0), "a node with its file": s.restarted().table(s.now), "a new node": s.fresh().table(s.now)} {
		gotKeys, gotLosers := inForce(table)
		s.want(who+": in force", gotKeys, keys)
		s.want(who+": conflicts", gotLosers, losers)
	}
}

// A new document whose URL is in use is not in force, whatever its name and with or without a lease, and takes over when the other goes.
func TestURLInUseStays(t *testing.T) {
	f := func(newLeased bool) {
		s := newStateTest(t)
		s.write("endpoints/ams/m", endpoint("h", 4), false)
		s.write("endpoints/ams/a", endpoint("h", 8), newLeased)
		s.write("endpoints/ams/z", endpoint("h", 8), newLeased)
		conflicts := []string{"endpoints/ams/a for endpoints/ams/m", "endpoints/ams/z for endpoints/ams/m"}
		s.wantInForce([]string{"endpoints/ams/m"}, conflicts)
		s.write("endpoints/ams/m", endpoint("H:80/v1", 5), false) // the same URL
		s.write("endpoints/ams/a", endpoint("h", 9), newLeased)
		s.wantInForce([]string{"endpoints/ams/m"}, conflicts)
		s.write("endpoints/ams/m", "{url: 7}", false) // the last good version stays in force
		gotKeys, _ := inForce(s.after(0))
		s.want("with a bad version", gotKeys, []string{"endpoints/ams/m"})
		s.erase("endpoints/ams/m")
		s.wantInForce([]string{"endpoints/ams/a"}, []string{"endpoints/ams/z for endpoints/ams/a"})
		s.write("endpoints/ams/m", endpoint("h", 4), false)
		s.wantInForce([]string{"endpoints/ams/a"}, []string{"endpoints/ams/m for endpoints/ams/a", "endpoints/ams/z for endpoints/ams/a"})
	}
	f(false)
	f(true)
}

// A document that is changed to a URL in use does not get it either, and its old URL is free.
func TestChangeToURLInUse(t *testing.T) {
	s := newStateTest(t)
	s.write("endpoints/ams/a", endpoint("one", 4), false)
	s.write("endpoints/ams/b", endpoint("two", 4), false)
	s.write("endpoints/ams/a", endpoint("two", 4), false)
	for who, n := range map[string]*documentState{"the node": s.documentState, "a node with its file": s.restarted()} {
		keys, losers := inForce(n.table(s.now))
		s.want(who+": in force", keys, []string{"endpoints/ams/b"})
		s.want(who+": conflicts", losers, []string{"endpoints/ams/a for endpoints/ams/b"})
	}
	s.write("endpoints/ams/c", endpoint("one", 4), false)
	s.write("endpoints/ams/b", endpoint("one", 4), false)
	keys, losers := inForce(s.after(0))
	s.want("after another change", keys, []string{"endpoints/ams/a", "endpoints/ams/c"})
	s.want("after another change", losers, []string{"endpoints/ams/b for endpoints/ams/c"})
}

// A URL that moves from one document to another in one transaction moves.
func TestURLMovesInOneTransaction(t *testing.T) {
	for _, order := range [][]string{{"endpoints/ams/a", "endpoints/ams/b"}, {"endpoints/ams/b", "endpoints/ams/a"}} {
		s := newStateTest(t)
		s.write("endpoints/ams/a", endpoint("one", 4), false)
		s.write("endpoints/ams/b", endpoint("two", 4), false)
		s.after(0)
		for _, key := range order {
			s.write(key, map[string]string{"endpoints/ams/a": endpoint("two", 5), "endpoints/ams/b": endpoint("one", 5)}[key], false)
		}
		s.wantInForce([]string{"endpoints/ams/a", "endpoints/ams/b"}, nil)
	}
}

// Deletions that are held back do not change which of two documents has a URL.
func TestHeldBackDeletionsKeepTheOrder(t *testing.T) {
	s := newStateTest(t)
	var keys []string
	for i := range 12 {
		keys = append(keys, fmt.Sprintf("endpoints/ams/z%02d", i))
		s.write(keys[i], endpoint(fmt.Sprintf("h%d", i), 4), false)
	}
	s.write("endpoints/ams/a", endpoint("h3", 8), false)
	want := []string{"endpoints/ams/a for endpoints/ams/z03"}
	_, losers := inForce(s.after(0))
	s.want("before", losers, want)
	s.erase(append(keys, "endpoints/ams/a")...)
	table := s.after(0)
	if len(table.PendingDeletions) != 13 {
		t.Fatalf("held back: %q", table.PendingDeletions)
	}
	got, losers := inForce(table)
	s.want("held back", got, keys)
	s.want("held back", losers, want)
	got, losers = inForce(s.restarted().table(s.now))
	s.want("held back, after a restart", got, keys)
	s.want("held back, after a restart", losers, want)
	for i, key := range keys {
		s.write(key, endpoint(fmt.Sprintf("h%d", i), 4), false)
	}
	s.write("endpoints/ams/a", endpoint("h3", 8), false)
	got, losers = inForce(s.after(0))
	s.want("put again", got, keys)
	s.want("put again", losers, want)
}

// A document that was deleted and created again while a node did not follow the store claims anew, as it does at other nodes.
func TestMissedDeletion(t *testing.T) {
	s := newStateTest(t)
	s.write("endpoints/ams/a", endpoint("h", 4), false)
	s.write("endpoints/ams/b", endpoint("h", 4), false)
	away := s.restarted()
	away.table(s.now)
	s.erase("endpoints/ams/a")
	s.write("endpoints/ams/a", endpoint("h", 4), false)
	list(away, s.store, s.revision, s.now)
	keys, _ := inForce(away.table(s.now))
	s.want("a node that was away", keys, []string{"endpoints/ams/b"})
	s.wantInForce(keys, []string{"endpoints/ams/a for endpoints/ams/b"})
}

// Documents that are put again into an empty store claim anew, in the order of that store, also if one of them gets the revision again that
// it had in the lost store.
func TestPutAgainIntoEmptyStore(t *testing.T) {
	s := newStateTest(t)
	s.models(20)
	s.write("endpoints/ams/x", endpoint("hx", 4), false)
	s.write("endpoints/ams/a", endpoint("h", 4), false)
	created := s.write("endpoints/ams/b", endpoint("h", 4), false) - 1
	for i := range minHeldBack {
		s.write(fmt.Sprintf("endpoints/ams/y%d", i), endpoint(fmt.Sprintf("y%d", i), 4), false)
	}
	s.after(0)
	s.store, s.revision = map[string]Stored{}, 1
	list(s.documentState, s.store, s.revision, s.now)
	if held := s.after(0).PendingDeletions; !slices.Contains(held, "endpoints/ams/a") || !slices.Contains(held, "endpoints/ams/b") {
		t.Fatalf("pending deletions: %q", held)
	}
	s.revision = created - 2
	s.write("endpoints/ams/b", endpoint("h", 4), false)
	if at := s.write("endpoints/ams/a", endpoint("h", 4), false); at != created {
		t.Fatalf("created at %d, and before at %d", at, created)
	}
	_, losers := inForce(s.after(0))
	s.want("put again", losers, []string{"endpoints/ams/a for endpoints/ams/b"})
}

// A document that was put by hand does not take the colo of a registered server, neither while that lives nor while its lease
// has just expired. It counts while no server is registered.
func TestServerPutByHand(t *testing.T) {
	for _, name := range []string{"a", "z"} {
		s := newStateTest(t)
		other := "servers/ams/" + name
		s.write("servers/ams/m", activeServer, true)
		s.write(other, activeServer, false)
		s.wantInForce([]string{"servers/ams/m"}, []string{other + " for servers/ams/m"})
		s.write(other, activeServer+" # again", false)
		s.write("servers/ams/m", drainingServer, true)
		s.wantInForce([]string{"servers/ams/m"}, []string{other + " for servers/ams/m"})
		s.write("servers/ams/m", activeServer, true)
		s.after(0)
		s.erase("servers/ams/m")
		s.wantServers(time.Hour, "m")
		s.write("servers/ams/m", activeServer, true)
		s.wantServers(0, "m")
		s.erase("servers/ams/m")
		s.wantServers(time.Hour, "m")
		s.dropDead([]string{"servers/ams/m"}, "it does not answer", s.now)
		s.wantServers(0, name)
		s.write("servers/ams/m", activeServer, true)
		s.wantInForce([]string{"servers/ams/m"}, []string{other + " for servers/ams/m"})
	}
}

// After any history, a node that restarts with its file has in force what a node has that never ended, and so has one that built a
// table after each change, and a new node as long as no document was changed to another URL.
func TestNodesAgreeOnURLs(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for range 50 {
		s, eager := newStateTest(t), newStateTest(t)
		changed := false
		for range 30 {
			key := fmt.Sprintf("endpoints/ams/e%d", random.IntN(4))
			host := fmt.Sprintf("h%d", random.IntN(2))
			old, there := s.store[key]
			switch value := endpoint(host, 1+random.IntN(3)); {
			case there && random.IntN(3) == 0:
				s.now, eager.now = s.now.Add(2*holdWindow), eager.now.Add(2*holdWindow) // so that deletions are not too many
				s.erase(key)
				eager.erase(key)
			case there && random.IntN(4) == 0:
				s.write(key, "{url: 7}", false)
				eager.write(key, "{url: 7}", false)
				changed = true // a new node has no last good version
			default:
				changed = changed || there && !strings.HasPrefix(string(old.Value), value[:len("{url: 'http://h0")])
				s.write(key, value, false)
				eager.write(key, value, false)
			}
			gotKeys, gotLosers := inForce(eager.after(0))
			if random.IntN(4) > 0 {
				continue // several changes in one table
			}
			keys, losers := inForce(s.after(0))
			s.want("a node with many tables", gotKeys, keys)
			s.want("a node with many tables", gotLosers, losers)
			gotKeys, gotLosers = inForce(s.restarted().table(s.now))
			s.want("a node with its file", gotKeys, keys)
			s.want("a node with its file", gotLosers, losers)
			if !changed {
				gotKeys, gotLosers = inForce(s.fresh().table(s.now))
				s.want("a new node", gotKeys, keys)
				s.want("a new node", gotLosers, losers)
			}
			if t.Failed() {
				t.Fatalf("store %v", s.store)
			}
		}
	}
}
