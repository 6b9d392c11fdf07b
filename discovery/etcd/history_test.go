package etcd_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

func (s *store) history() []etcd.Change {
	s.t.Helper()
	all, err := etcd.History(s.ctx(), s.client, prefix)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func model(name, value string) document.Raw {
	return document.Raw{Key: "models/" + name, Value: []byte(value)}
}

// Each change puts its author in the same transaction, and itself into the history, with what was there before.
func TestChangesHaveAuthors(t *testing.T) {
	s := start(t)
	w := s.writer()
	if err := w.Create(s.ctx(), model("a", "beta: true")); err != nil {
		t.Fatal(err)
	}
	created := s.get("models/a").ModRevision
	if _, err := w.Apply(s.ctx(), []document.Raw{model("a", "beta: false"), model("b", "{}")}); err != nil {
		t.Fatal(err)
	}
	by := s.get(etcd.AuthorKey)
	if by == nil || by.ModRevision != s.get("models/a").ModRevision || by.ModRevision != s.get("models/b").ModRevision {
		t.Fatalf("the author's key is %v, the documents are %v and %v", by, s.get("models/a"), s.get("models/b"))
	}
	if author, err := etcd.ParseAuthor(by.Value); err != nil || author.User != "alice" || author.Host != "laptop" || author.Command != t.Name() || author.Time.IsZero() {
		t.Errorf("author %+v, %v", author, err)
	}
	if _, err := w.Delete(s.ctx(), []string{"models/b", "models/c"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.history() {
		for _, d := range c.Documents {
			got = append(got, fmt.Sprintf("%s %s %s %q %q %v", c.User, d.Action, d.Key, d.Old, d.New, d.OldRevision == created))
		}
	}
	want := []string{
		`alice deleted models/b "{}" "" false`,
		`alice changed models/a "beta: true" "beta: false" true`, `alice created models/b "" "{}" false`,
		`alice created models/a "" "beta: true" false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the history is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if revision := s.history()[1].Revision; revision != by.ModRevision {
		t.Errorf("the change is of revision %d, its documents of %d", revision, by.ModRevision)
	}
	kept, err := s.client.Get(s.ctx(), prefix+"history/changes/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kept.Kvs {
		if !strings.HasSuffix(string(kv.Key), fmt.Sprintf("-%d", len(kv.Value))) {
			t.Errorf("the key %s is that of %d bytes", kv.Key, len(kv.Value))
		}
	}
	if docs, _, err := etcd.List(s.ctx(), s.client, prefix, ""); err != nil || len(docs) != 1 {
		t.Errorf("the list of all documents is %v, %v", docs, err)
	}
}

// A document that is there word for word is not put again, and is no change.
func TestUnchangedDocumentsAreNoChange(t *testing.T) {
	s := start(t)
	for range 2 {
		if _, err := s.writer().Apply(s.ctx(), []document.Raw{model("a", "{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if kv := s.get("models/a"); kv.Version != 1 || len(s.history()) != 1 {
		t.Errorf("version %d, %d changes", kv.Version, len(s.history()))
	}
}

// The history keeps the newest changes, and no values of one that is large or no text.
func TestHistoryIsBounded(t *testing.T) {
	s := start(t)
	s.put("models/a", "# \xff")
	big := bytes.Repeat([]byte("# x\n"), 15_000)
	var docs []document.Raw
	for i := range 5 {
		docs = append(docs, model(fmt.Sprintf("m%d", i), string(big)+"{}"))
	}
	for _, put := range [][]document.Raw{docs, {model("a", "{}")}} {
		if _, err := s.writer().Apply(s.ctx(), put); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range s.history() {
		if !c.Omitted || c.Documents[0].Old+c.Documents[0].New != "" || c.Documents[0].Key == "" || c.Documents[0].Action == "" {
			t.Errorf("%.200v", c)
		}
	}
	var puts []clientv3.Op
	for i := range 120 { // of a clock that is ahead
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("%shistory/changes/%020d-00000000", prefix, int64(8e18)+int64(i)), "{}"))
	}
	for range 2 {
		if _, err := s.client.Txn(s.ctx()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
		for i := range puts {
			puts[i] = clientv3.OpPut(fmt.Sprintf("%shistory/changes/%020d-00000000", prefix, int64(7e18)+int64(i)), "{}")
		}
	}
	for _, want := range []string{"beta: true", "beta: false"} {
		if _, err := s.writer().Apply(s.ctx(), []document.Raw{model("b", want)}); err != nil {
			t.Fatal(err)
		}
		if all := s.history(); len(all) != etcd.MaxHistory || all[0].Documents[0].New != want || all[etcd.MaxHistory-1].Omitted {
			t.Errorf("%d changes, the newest %+v, the oldest %+v", len(all), all[0], all[len(all)-1])
		}
	}
}

// Of many authors that change one document at once, each is in the history, and each has seen the change before its own.
func TestHistoryIsOneChain(t *testing.T) {
	s := start(t)
	var writers sync.WaitGroup
	for n := range 10 {
		writers.Go(func() {
			if _, err := s.writer().Apply(s.ctx(), []document.Raw{model("a", fmt.Sprintf("retry: {errors: %d}", n))}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	all := s.history()
	if len(all) != 10 {
		t.Fatalf("%d changes", len(all))
	}
	for i, c := range all[:9] {
		if d, before := c.Documents[0], all[i+1]; d.Old != before.Documents[0].New || d.OldRevision != before.Revision {
			t.Errorf("change %d replaces %q of revision %d; the one before is %+v", i, d.Old, d.OldRevision, before)
		}
	}
}
