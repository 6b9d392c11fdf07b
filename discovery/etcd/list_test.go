package etcd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// A list has everything below a folder, or one document, sorted and as it was at one revision, over several pages.
func TestList(t *testing.T) {
	s := start(t)
	var docs []document.Raw
	for i := range 150 {
		docs = append(docs, document.Raw{Key: fmt.Sprintf("models/m%03d", i), Value: []byte("{}")})
	}
	if _, err := s.writer().Apply(s.ctx(), docs); err != nil {
		t.Fatal(err)
	}
	leased := s.registration("servers/ams/a")
	leased.TTL = time.Minute
	s.register(leased)
	bad := s.put("models/m007", "bad: [")
	last := s.put("models", "{}")
	list := func(under string) []etcd.Stored {
		t.Helper()
		found, revision, err := etcd.List(s.ctx(), s.client, prefix, under)
		if err != nil || revision != last {
			t.Errorf("%q: revision %d, want %d; %v", under, revision, last, err)
		}
		return found
	}
	all := list("models/")
	if len(all) != len(docs) || !slices.IsSortedFunc(all, func(a, b etcd.Stored) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("%d documents, want %d, sorted", len(all), len(docs))
	}
	if d := all[7]; d.Key != "models/m007" || string(d.Value) != "bad: [" || d.Revision != bad || d.Leased {
		t.Errorf("got %+v", d)
	}
	if found := list("models/m007"); len(found) != 1 || found[0].Revision != bad {
		t.Errorf("got %+v", found)
	}
	if found := list("servers/"); len(found) != 1 || found[0].Key != "servers/ams/a" || !found[0].Leased {
		t.Errorf("got %+v", found)
	}
	if got := len(list("")); got != len(docs)+2 {
		t.Errorf("%d documents altogether", got)
	}
	if found := list("none/"); len(found) != 0 {
		t.Errorf("got %+v", found)
	}
}
