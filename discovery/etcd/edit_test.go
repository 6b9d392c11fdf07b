package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

// Twenty who add to one document at once, which is not even there before, all have added in the end.
func TestEditsAtOnce(t *testing.T) {
	s := start(t)
	var edits sync.WaitGroup
	for n := range 20 {
		edits.Go(func() {
			key := fleet.Key{ID: fmt.Sprintf("k%d", n), SHA256: [32]byte{byte(n)}}
			err := etcd.Edit(s.ctx(), s.client, prefix, "accounts/acme", func(old []byte) ([]byte, error) {
				time.Sleep(10 * time.Millisecond) // for others to come between
				return fleet.AddKey("acme", old, key)
			})
			if err != nil {
				t.Errorf("edit %d: %v", n, err)
			}
		})
	}
	edits.Wait()
	docs := fleet.NewDocuments()
	if err := docs.Put("accounts/acme", s.get("accounts/acme").Value, 1); err != nil {
		t.Fatal(err)
	}
	if a, _ := docs.Table().Account("acme"); len(a.Keys) != 20 {
		t.Errorf("%d keys, want 20:\n%s", len(a.Keys), s.get("accounts/acme").Value)
	}
}

// What somebody else deletes or puts between reading and putting is seen.
func TestEditSeesOthers(t *testing.T) {
	s := start(t)
	s.put("pools/p", "queue: {limit: 1}")
	var seen []string
	err := etcd.Edit(s.ctx(), s.client, prefix, "pools/p", func(old []byte) ([]byte, error) {
		seen = append(seen, string(old))
		switch len(seen) {
		case 1:
			s.put("pools/p", "queue: {limit: 2}")
		case 2:
			s.remove("pools/p")
		case 3:
			s.put("pools/p", "queue: {limit: 1}") // as it once was
		}
		return []byte("queue: {limit: 9}"), nil
	})
	if want := "queue: {limit: 1}|queue: {limit: 2}||queue: {limit: 1}"; err != nil || strings.Join(seen, "|") != want {
		t.Errorf("%v, change was called with %q, want %q", err, seen, want)
	}
	if got := string(s.get("pools/p").Value); got != "queue: {limit: 9}" {
		t.Errorf("in the end there is %q", got)
	}
}

func TestEditPutsNothingBad(t *testing.T) {
	s := start(t)
	s.put("pools/p", "queue: {limit: 1}")
	before := s.revision()
	edit := func(key, to string, err error) error {
		return etcd.Edit(s.ctx(), s.client, prefix, key, func([]byte) ([]byte, error) { return []byte(to), err })
	}
	var invalid *fleet.InvalidError
	for _, key := range []string{"pools/p", "pools/new", "pool/p"} {
		if err := edit(key, "queue: {limit: -1}", nil); !errors.As(err, &invalid) || invalid.Key != key {
			t.Errorf("a bad %s: %v", key, err)
		}
	}
	if err := edit("pools/new", "", nil); !errors.As(err, &invalid) {
		t.Errorf("nothing: %v", err)
	}
	refused := errors.New("no")
	if err := edit("pools/p", "{}", refused); err != refused {
		t.Errorf("an error of change becomes %v", err)
	}
	if err := edit("pools/p", "queue: {limit: 1}", nil); err != nil {
		t.Errorf("no change: %v", err)
	}
	if now := s.revision(); now != before {
		t.Errorf("the store's revision is %d, and was %d: something was put", now, before)
	}
}

func (s *store) revision() int64 {
	answer, err := s.client.Get(s.ctx(), prefix)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Header.Revision
}
