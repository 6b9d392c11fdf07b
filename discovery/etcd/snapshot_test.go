package etcd_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

func (s *store) snapshot() etcd.Snapshot {
	s.t.Helper()
	snapshot, err := s.writer().Snapshot(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

// Of many writers that read all documents and then raise one of two numbers, each has seen all that others have done, or got an error:
// each writes the sum of both, plus one, and in the end that is how many have succeeded.
func TestNoChangeIsLost(t *testing.T) {
	s := start(t)
	const most = 16 // the largest value of the field
	s.put("models/a", "retry: {errors: 0}")
	s.put("models/b", "retry: {errors: 0}")
	read := func(snapshot etcd.Snapshot) (largest int) {
		for _, d := range snapshot.Documents {
			n := 0
			if _, err := fmt.Sscanf(string(d.Value), "retry: {errors: %d}", &n); err != nil {
				t.Error(err)
			}
			largest = max(largest, n)
		}
		return largest
	}
	var done, refused atomic.Int64
	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() {
			for range 4 {
				snapshot, err := s.writer().Snapshot(s.ctx())
				if err != nil {
					t.Error(err)
					return
				}
				next := read(snapshot) + 1
				if next > most {
					return
				}
				doc := model([]string{"a", "b"}[n%2], fmt.Sprintf("retry: {errors: %d}", next))
				switch _, err := s.writer().Commit(s.ctx(), snapshot, etcd.Edit{Put: []document.Raw{doc}}); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, etcd.ErrChanged):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if got := int64(read(s.snapshot())); got != done.Load() || got != int64(len(s.history())) || got == 0 {
		t.Errorf("%d have succeeded and %d were refused; the number is %d, and the history has %d changes", done.Load(), refused.Load(), got, len(s.history()))
	}
}

// A commit notices changes since the snapshot, but for registrations, which change all the time.
func TestCommitNoticesChanges(t *testing.T) {
	s := start(t)
	lease, err := s.client.Grant(s.ctx(), 60)
	if err != nil {
		t.Fatal(err)
	}
	f := func(conflict bool, what string, change func()) {
		t.Helper()
		for _, key := range []string{"models/a", "models/b", "pools/p", "endpoints/ams/e"} {
			s.put(key, map[string]string{"endpoints/ams/e": "{url: 'http://h', pool: p}"}[key])
		}
		snapshot := s.snapshot()
		change()
		done, err := s.writer().Commit(s.ctx(), snapshot, etcd.Edit{Put: []document.Raw{model("a", "beta: true")}, Delete: []string{"endpoints/ams/e"}})
		if conflict && !errors.Is(err, etcd.ErrChanged) || !conflict && (err != nil || len(done) != 1) {
			t.Errorf("%s: %v, %v", what, done, err)
		}
		if got := string(s.get("models/a").Value); (got == "beta: true") == conflict && what != "the document itself" {
			t.Errorf("%s: the document is %q", what, got)
		}
	}
	f(false, "nothing", func() {})
	f(true, "the document itself", func() { s.put("models/a", "beta: true") })
	f(true, "another model", func() { s.put("models/b", "{}") })
	f(true, "a new pool", func() { s.put("pools/q", "{}") })
	f(true, "the defaults", func() { s.put("defaults", "{}") })
	f(true, "a document that is to be deleted", func() { s.remove("endpoints/ams/e") })
	f(true, "a deletion by another writer", func() {
		if _, err := s.writer().Delete(s.ctx(), []string{"pools/p"}); err != nil {
			t.Error(err)
		}
	})
	f(false, "registrations", func() {
		for _, key := range []string{"endpoints/ams/registered", "servers/ams/s", "entries/e"} {
			if _, err := s.client.Put(s.ctx(), prefix+key, "{}", clientv3.WithLease(lease.ID)); err != nil {
				t.Error(err)
			}
		}
	})
}

// A change of more documents than a transaction can hold is carried out in parts; another change between two of them is noticed, and
// the documents that were put before are not put again.
func TestCommitInParts(t *testing.T) {
	s := start(t)
	var edit etcd.Edit
	for i := range 230 {
		edit.Put = append(edit.Put, model(fmt.Sprintf("m%03d", i), "{}"))
		s.put(fmt.Sprintf("pools/p%03d", i), "{}")
		edit.Delete = append(edit.Delete, fmt.Sprintf("pools/p%03d", i))
	}
	edit.Confirm = true
	done, err := s.writer().Commit(s.ctx(), s.snapshot(), edit)
	if err != nil || len(done) != 6 || len(s.history()) != 6 {
		t.Fatalf("%d parts, %v", len(done), err)
	}
	if s.get("models/m229") == nil || s.get("pools/p000") != nil || s.get("pools/p229") != nil {
		t.Error("not all was done")
	}
	if confirmed := s.get("deletions"); confirmed == nil || confirmed.Version != 4 || string(confirmed.Value) != fmt.Sprintf("confirmed: %d\n", done[5].Revision) {
		t.Errorf("the confirmation is %v; want one in each of the three transactions that delete, and then the revision of the last one", confirmed)
	}
	if done, err = s.writer().Commit(s.ctx(), s.snapshot(), edit); err != nil || len(done) != 0 {
		t.Errorf("again: %d parts, %v", len(done), err)
	}
	small := etcd.Edit{Put: []document.Raw{model("new", "{}")}, Delete: []string{"models/m000"}, Confirm: true}
	if done, err = s.writer().Commit(s.ctx(), s.snapshot(), small); err != nil || len(done) != 1 {
		t.Errorf("puts and deletions of a small change are not one: %d parts, %v", len(done), err)
	}
}
