package etcd

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"colonnade/fleet"
)

func apiKeyDocument(account, secret string) string {
	return fmt.Sprintf("{account: %s, sha256: '%x'}", account, sha256.Sum256([]byte(secret)))
}

// Documents that were deleted and put again under other names have their URLs, aliases and hashes, whichever name comes first.
func TestPendingDeletionsGiveWay(t *testing.T) {
	const n = 12
	f := func(before, after string) {
		t.Helper()
		s := newStateTest(t)
		var old []string
		write := func(name, version string) (keys []string) {
			for i := range n {
				for _, d := range [][2]string{
					{"endpoints/ams/", fmt.Sprintf("{url: 'http://h%d', pool: %s}", i, version)},
					{"models/", fmt.Sprintf("{aliases: [x%d], pool: %s}", i, version)},
					{"keys/", apiKeyDocument(version, fmt.Sprintf("k%d", i))},
				} {
					keys = append(keys, fmt.Sprintf("%s%s%02d", d[0], name, i))
					s.write(keys[len(keys)-1], d[1], false)
				}
			}
			return keys
		}
		old = write(before, "old")
		another := "keys/" + before + "99"
		s.write(another, apiKeyDocument("old", "another"), false)
		s.after(0)
		s.erase(append(old, another)...)
		if table := s.after(time.Second); len(table.PendingDeletions) != 3*n+1 {
			t.Fatalf("pending %q", table.PendingDeletions)
		}
		write(after, "new")
		table := s.after(time.Second)
		if len(table.PendingDeletions) != n+1 || len(table.EndpointsOf("ams")) != n || len(table.Endpoints("ams", "new")) != n {
			t.Errorf("%s, %s: pending %q, %d endpoints, %d new", before, after, table.PendingDeletions, len(table.EndpointsOf("ams")), len(table.Endpoints("ams", "new")))
		}
		for i := range n {
			if m, _ := table.Model(fmt.Sprintf("x%d", i)); m == nil || m.Pool != "new" {
				t.Errorf("%s, %s: alias x%d leads to %+v", before, after, i, m)
			}
			if k, _ := table.APIKeyByHash(sha256.Sum256([]byte(fmt.Sprintf("k%d", i)))); k == nil || k.ID != fmt.Sprintf("%s%02d", after, i) || k.Account != "new" {
				t.Errorf("%s, %s: API key %d is %+v", before, after, i, k)
			}
		}
		// Names and hashes that no other document claims stay.
		if _, ok := table.Model(before + "03"); !ok {
			t.Error("a held model lost its name with its alias")
		}
		if k, _ := table.APIKeyByHash(sha256.Sum256([]byte("another"))); k == nil || k.Account != "old" {
			t.Errorf("the other API key is %+v", k)
		}
		// Put again, it claims as before.
		s.write("models/"+before+"03", "{aliases: [x3], pool: old}", false)
		if m, _ := s.after(0).Model("x3"); m.Name != min(before, after)+"03" {
			t.Errorf("alias x3 leads to %s", m.Name)
		}
	}
	f("a", "z")
	f("z", "a")
}

// API keys count like any other kind: when too many vanish within a minute they stay valid until that is confirmed, and
// what happens to other kinds does not matter.
func TestVanishedAPIKeysAreHeld(t *testing.T) {
	valid := func(table *fleet.Table, n int) (found int) {
		for i := range n {
			if _, ok := table.APIKeyByHash(sha256.Sum256(fmt.Appendf(nil, "k%d", i))); ok {
				found++
			}
		}
		return found
	}
	f := func(there, deleted, want int) {
		t.Helper()
		s := newStateTest(t)
		var keys []string
		for i := range there {
			keys = append(keys, fmt.Sprintf("keys/k%02d", i))
			s.write(keys[i], apiKeyDocument("acme", fmt.Sprintf("k%d", i)), false)
		}
		s.write("accounts/acme", "{}", false)
		s.models(30)
		s.erase(keys[:deleted]...)
		table := s.after(0)
		if got := valid(table, there); got != want || len(table.PendingDeletions) != want-(there-deleted) {
			t.Errorf("%d of %d deleted: %d valid, want %d; pending %q", deleted, there, got, want, table.PendingDeletions)
		}
		if len(table.PendingDeletions) > 0 {
			s.confirm(s.revision)
			if table := s.after(0); valid(table, there) != there-deleted || len(table.PendingDeletions) != 0 {
				t.Errorf("confirmed, and %d are valid; pending %q", valid(table, there), table.PendingDeletions)
			}
		}
	}
	f(12, 6, 6)
	f(12, 9, 12)
	f(20, 10, 10)
	f(19, 10, 19)
	f(12, 12, 12)
}

// A model that was renamed and has its old name as an alias replaces the old one, also if its deletion was pending in the file of
// an earlier run.
func TestRenamedModelReplacesPendingDeletion(t *testing.T) {
	f := func(name string) {
		t.Helper()
		s := newStateTest(t)
		for i := range 12 {
			s.restore(cachedDocument{Key: fmt.Sprintf("models/m%02d", i), Value: []byte("{aliases: [x]}"), Revision: 1, GoneAt: 3}, s.now)
		}
		s.revision = 3
		s.write("models/"+name, "{aliases: [m00, x]}", false)
		table := s.after(0)
		for _, alias := range []string{"m00", "x"} {
			if m, _ := table.Model(alias); m == nil || m.Name != name {
				t.Errorf("%s leads to %+v", alias, m)
			}
		}
		if len(table.PendingDeletions) != 11 || table.PendingDeletions[0] != "models/m01" {
			t.Errorf("pending %q", table.PendingDeletions)
		}
	}
	f("a")
	f("z")
}
