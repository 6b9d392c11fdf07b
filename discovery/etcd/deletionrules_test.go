package etcd

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// smallFleet puts the documents of a fleet with three models, two accounts, two API keys, two colos and an endpoint of each pool in each colo.
func (s *stateTest) smallFleet() {
	for key, value := range map[string]string{
		"defaults": "{}", "models/a": "pool: p", "models/b": "pool: q", "models/c": "pool: q", "pools/q": "{}",
		"accounts/a": "{}", "accounts/b": "{}", "keys/k1": apiKeyDocument("a", "1"), "keys/k2": apiKeyDocument("b", "2"),
		"colos/ams": "{}", "colos/fra": "{}", "flows/a": "regions: {weur: {ams: 1}}",
		"endpoints/ams/p": "{url: 'http://p', pool: p}", "endpoints/ams/q": "{url: 'http://q', pool: q}",
		"endpoints/fra/p": "{url: 'http://p', pool: p}", "endpoints/fra/q": "{url: 'http://q', pool: q}",
	} {
		s.write(key, value, false)
	}
	s.after(0)
}

// The last document of a kind without which a fleet refuses requests is held back, at once or one after the other, also if a list finds
// it; the last but one is not.
func TestLastDocumentIsHeld(t *testing.T) {
	f := func(want string, deleted ...string) {
		t.Helper()
		held := func(how string, delete func(s *stateTest)) {
			t.Helper()
			s := newStateTest(t)
			s.smallFleet()
			delete(s)
			s.want(how, s.after(0).PendingDeletions, strings.Fields(want))
			s.confirm(s.revision)
			s.want("confirmed, "+how, s.after(0).PendingDeletions, nil)
			for _, key := range deleted {
				if _, known := s.known[key]; known {
					t.Errorf("%s is in force after its deletion was confirmed", key)
				}
			}
		}
		held("at once", func(s *stateTest) { s.erase(deleted...) })
		held("one after the other", func(s *stateTest) {
			for _, key := range deleted {
				s.erase(key)
				s.after(time.Second)
			}
		})
		held("by a list", func(s *stateTest) {
			s.revision++
			for _, key := range deleted {
				delete(s.store, key)
			}
			list(s.documentState, s.store, s.revision, s.now)
		})
	}
	f("", "accounts/a", "keys/k1", "colos/ams", "models/a", "defaults", "flows/a")
	f("accounts/a accounts/b", "accounts/a", "accounts/b")
	f("keys/k1 keys/k2", "keys/k1", "keys/k2")
	f("colos/ams colos/fra", "colos/ams", "colos/fra")
	f("models/a models/b models/c", "models/a", "models/b", "models/c")
	f("pools/q", "pools/q")
	f("endpoints/ams/p", "endpoints/ams/p")
	f("endpoints/ams/p endpoints/fra/q", "endpoints/ams/p", "endpoints/fra/q")
	f("endpoints/ams/p models/a models/b models/c", "endpoints/ams/p", "models/a", "models/b", "models/c") // the models are in force, and name it
	// No model names the pools then.
	f("", "models/b", "models/c", "pools/q", "endpoints/ams/q", "endpoints/fra/q")
}

// Keys of workers are for no requests: the last key for requests is held back beside one, and one is never the last key.
func TestLastClientKeyIsHeld(t *testing.T) {
	s := newStateTest(t)
	s.smallFleet()
	s.write("keys/w", fmt.Sprintf("{role: worker, sha256: '%x'}", sha256.Sum256([]byte("w"))), false)
	s.write("keys/x", fmt.Sprintf("{role: worker, sha256: '%x'}", sha256.Sum256([]byte("x"))), false)
	s.after(0)
	s.erase("keys/k1", "keys/x")
	s.want("a key for requests is left", s.after(2*holdWindow).PendingDeletions, nil)
	s.erase("keys/k2")
	s.want("no key for requests is left", s.after(0).PendingDeletions, []string{"keys/k2"})
	s.confirm(s.revision)
	s.erase("keys/w")
	s.want("the last key of a worker", s.after(2*holdWindow).PendingDeletions, nil)
}

// A document that is replaced in the same transaction, or was taken out of service before, is not held back.
func TestReplacedDocumentsAreNotHeld(t *testing.T) {
	f := func(what string, change func(s *stateTest)) {
		t.Helper()
		s := newStateTest(t)
		s.smallFleet()
		change(s)
		if held := s.after(0).PendingDeletions; len(held) > 0 {
			t.Errorf("%s: pending %q", what, held)
		}
		s.wantLogged("holding the deletion", 0)
	}
	replace := func(s *stateTest, old, key, value string) {
		s.revision++
		s.beginRevision(s.revision, s.now)
		s.remove(old, s.revision, s.now)
		s.put(Stored{Key: key, Value: []byte(value), Revision: s.revision, Created: s.revision}, s.now)
	}
	f("another endpoint of the pool", func(s *stateTest) {
		replace(s, "endpoints/ams/p", "endpoints/ams/new", "{url: 'http://new', pool: p}")
	})
	f("the engine in another pool, under another name", func(s *stateTest) {
		replace(s, "endpoints/ams/p", "endpoints/ams/new", "{url: 'http://p', pool: q}")
	})
	f("the engine in another pool", func(s *stateTest) { s.write("endpoints/ams/p", "{url: 'http://p', pool: q}", false) })
	f("another pool", func(s *stateTest) { replace(s, "pools/q", "pools/r", "{}") })
	f("a registered endpoint is left", func(s *stateTest) {
		s.write("endpoints/ams/leased", "{url: 'http://leased', pool: p}", true)
		s.erase("endpoints/ams/p")
	})
	f("an endpoint without slots", func(s *stateTest) {
		s.write("endpoints/ams/p", "{url: 'http://p', pool: p, concurrency: 0}", false)
		s.erase("endpoints/ams/p")
	})
	f("an endpoint that drains", func(s *stateTest) {
		s.write("endpoints/ams/p", "{url: 'http://p', pool: p, state: draining}", false)
		s.erase("endpoints/ams/p")
	})
	f("the last model, replaced", func(s *stateTest) {
		s.erase("models/a")
		s.after(2 * holdWindow)
		s.erase("models/b")
		s.after(2 * holdWindow)
		replace(s, "models/c", "models/d", "pool: q")
	})
	f("confirmed in the same transaction", func(s *stateTest) {
		s.revision++
		s.beginRevision(s.revision, s.now)
		d := Stored{Key: "deletions", Value: []byte(confirmation), Revision: s.revision, Created: s.revision}
		s.put(d, s.now)
		for _, key := range []string{"models/a", "models/b", "models/c", "endpoints/ams/p"} {
			s.remove(key, s.revision, s.now)
		}
	})
}

// Nodes that see the same revisions decide alike, however many of them they see at once, and whatever other kinds they watch.
func TestNodesDecideAlike(t *testing.T) {
	s, eager, colo := newStateTest(t), newStateTest(t), newStateTest(t)
	s.smallFleet()
	eager.smallFleet()
	for _, key := range []string{"models/a", "models/b", "models/c", "pools/q", "colos/ams", "colos/fra", "endpoints/ams/p", "endpoints/ams/q"} {
		colo.write(key, string(s.store[key].Value), false)
	}
	colo.after(0)
	each := func(change func(s *stateTest)) {
		for _, one := range []*stateTest{s, eager, colo} {
			change(one)
		}
		eager.after(0)
	}
	each(func(s *stateTest) { s.erase("models/a") })
	each(func(s *stateTest) { s.erase("models/b", "models/c") })
	each(func(s *stateTest) { s.write("models/d", "pool: p", false) }) // too late: the last ones were gone before
	each(func(s *stateTest) { s.erase("endpoints/ams/p") })
	each(func(s *stateTest) { s.write("endpoints/ams/new", "{url: 'http://new', pool: p}", false) })
	want := []string{"endpoints/ams/p", "models/a", "models/b", "models/c"}
	s.want("one table", s.after(0).PendingDeletions, want)
	s.want("many tables", eager.after(0).PendingDeletions, want)
	s.want("a colo server", colo.after(0).PendingDeletions, want)
}

// A store that is empty changes nothing, and the log says so loudly. Documents that are put again into it come into force one by one, and
// no other is missing meanwhile.
func TestEmptiedStoreChangesNothing(t *testing.T) {
	s := newStateTest(t)
	s.smallFleet()
	before := s.after(0)
	keys, texts := []string{}, s.store
	for key := range texts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	s.store, s.revision = map[string]Stored{}, s.revision+1
	list(s.documentState, s.store, s.revision, s.now)
	table := s.after(0)
	s.want("an empty store", table.PendingDeletions, keys)
	if len(table.Models()) != len(before.Models()) || len(table.EndpointsOf("fra")) != 2 || len(table.Accounts()) != 2 {
		t.Errorf("%d models, %d endpoints", len(table.Models()), len(table.EndpointsOf("fra")))
	}
	s.wantLogged("level=ERROR msg=\"etcd has no documents any more", 1)
	for i, key := range keys {
		s.write(key, string(texts[key].Value), false)
		table = s.after(time.Hour)
		s.want(fmt.Sprintf("%d documents put again", i+1), table.PendingDeletions, keys[i+1:])
		if len(table.Models()) != len(before.Models()) {
			t.Fatalf("%d models", len(table.Models()))
		}
	}
	// The confirmation is no document that could be missing.
	s.confirm(1)
	s.after(2 * holdWindow)
	s.erase("deletions")
	s.want("pending", s.after(0).PendingDeletions, nil)
}
