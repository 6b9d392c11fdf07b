package document_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// randomSet is a set with what was put into it, from which another one can be made.
type randomSet struct {
	*document.Set
	good, bad map[string][]byte // the newest of each document
	yielding  map[string]bool
	revision  int64
}

// change makes one random change.
func (s *randomSet) change(random *rand.Rand) {
	key, value := randomDocument(random)
	s.revision++
	switch random.IntN(8) {
	case 0:
		s.Delete(key, s.revision)
		delete(s.good, key)
		delete(s.bad, key)
		delete(s.yielding, key)
	case 1:
		if s.good[key] != nil {
			s.Yield(key)
			s.yielding[key] = true
		}
	case 2:
		s.Reclaim(key, 0)
	default:
		delete(s.yielding, key)
		delete(s.bad, key)
		if s.Put(key, []byte(value), s.revision) != nil {
			s.bad[key] = []byte(value)
		} else {
			s.good[key] = []byte(value)
		}
	}
}

// randomDocument returns one of few documents, so that they collide; some are bad.
func randomDocument(random *rand.Rand) (key, value string) {
	n, m := random.IntN(6), random.IntN(4)
	switch random.IntN(10) {
	case 0:
		return "defaults", fmt.Sprintf("{model: {beta: %v}, endpoint: {weight: %d}, pool: {permits: {per_endpoint: %d}}}", m%2 == 0, 1+m, 1+n)
	case 1:
		return fmt.Sprintf("pools/p%d", m), fmt.Sprintf("{permits: {per_endpoint: %d}, queue: {limit: %d}}", 1+n/3, n)
	case 2:
		return fmt.Sprintf("models/m%d", n), fmt.Sprintf("{pool: p%d, aliases: [a%d]}", m, random.IntN(3))
	case 3:
		return fmt.Sprintf("servers/c%d/s%d", m, n), fmt.Sprintf("{address: 'h:%d', boot: b}", 1+n)
	case 4, 5:
		return fmt.Sprintf("accounts/a%d", n), fmt.Sprintf("weight: %d", m) // 0 is bad
	case 6:
		return fmt.Sprintf("colos/c%d", m), "{region: r}"
	default:
		return fmt.Sprintf("endpoints/c%d/e%d", m, n), fmt.Sprintf("{url: 'http://h%d', pool: p%d, weight: %d}", random.IntN(8), random.IntN(4), random.IntN(5))
	}
}

// anew returns a set of the same documents that has built no table.
func (s *randomSet) anew(t *testing.T) *document.Set {
	t.Helper()
	fresh := document.NewSet()
	put := func(key string, value []byte) {
		if err := fresh.Put(key, value, s.revision); (err != nil) != (s.bad[key] != nil && string(value) == string(s.bad[key])) {
			t.Errorf("%s: %v", key, err)
		}
	}
	for key, value := range s.good {
		put(key, value)
		fresh.Reclaim(key, s.Claim(key))
		if s.yielding[key] {
			fresh.Yield(key)
		}
	}
	for key, value := range s.bad {
		put(key, value)
	}
	return fresh
}

// contentOf returns everything that a table says, but for revisions of rejections.
func contentOf(t *testing.T, table *fleet.Table) string {
	t.Helper()
	dump := table.Dump(func(string) bool { return true })
	dump.Revision, dump.Rejected = 0, slices.Clone(dump.Rejected)
	for i := range dump.Rejected {
		dump.Rejected[i].Revision, dump.Rejected[i].InForce = 0, 0
	}
	text, err := json.MarshalIndent(dump, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, fmt.Sprint(table.EndpointColos(), len(table.Dangling()))...)
	for _, a := range table.Accounts() {
		found, ok := table.Account(a.Name)
		text = append(text, fmt.Sprint(a.Name, ok && found == a, "\n")...)
	}
	for _, colo := range table.EndpointColos() {
		for _, e := range table.EndpointsOf(colo) {
			text = append(text, fmt.Sprint(e.Colo, e.ID, slices.Contains(table.Endpoints(colo, e.Pool), e), "\n")...)
		}
		for _, p := range table.Pools() {
			text = append(text, fmt.Sprint(p.Name, len(table.Endpoints(colo, p.Name)), "\n")...)
		}
	}
	return string(text)
}

// After any changes, the table is that of a set which never built one. No earlier table changes, nor does the set that was cloned.
func TestTableAfterChangesIsThatOfANewSet(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for range testkit.AtScale(3, 50) {
		s := &randomSet{Set: document.NewSet(), good: map[string][]byte{}, bad: map[string][]byte{}, yielding: map[string]bool{}}
		var last *fleet.Table
		lastContent := ""
		for range 20 {
			for range 1 + random.IntN(4) {
				s.change(random)
			}
			table := s.Table()
			got, want := contentOf(t, table), contentOf(t, s.anew(t).Table())
			if got != want {
				t.Fatalf("the documents %q give\n%s\nand anew\n%s", slices.Sorted(maps.Keys(s.good)), got, want)
			}
			if last != nil && contentOf(t, last) != lastContent {
				t.Fatal("an earlier table has changed")
			}
			last, lastContent = table, got
			other := &randomSet{Set: s.Clone(), good: maps.Clone(s.good), bad: maps.Clone(s.bad), yielding: maps.Clone(s.yielding), revision: s.revision}
			for range 3 {
				other.change(random)
			}
			if got, want := contentOf(t, other.Table()), contentOf(t, other.anew(t).Table()); got != want {
				t.Fatalf("the documents %q of a clone give\n%s\nand anew\n%s", slices.Sorted(maps.Keys(other.good)), got, want)
			}
			if contentOf(t, s.Table()) != lastContent {
				t.Fatal("a change of a clone has changed the set")
			}
		}
	}
}
