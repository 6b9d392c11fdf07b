package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// Apply puts more documents than one transaction can hold, and says which are new and which were there before.
func TestApply(t *testing.T) {
	s := start(t)
	big := "# " + strings.Repeat("x", document.MaxSize-100) + "\n"
	var docs []document.Raw
	for i := range 150 {
		value := "{}"
		if i < 30 {
			value = big + value // together more than a transaction can hold
		}
		docs = append(docs, document.Raw{Key: fmt.Sprintf("models/m%d", i), Value: []byte(value)})
	}
	if applied, err := s.writer().Apply(s.ctx(), docs); err != nil || len(applied.Created) != len(docs) || len(applied.Unchanged) != 0 {
		t.Fatal(applied, err)
	}
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	if got := len(w.Table().Models()); got != len(docs) {
		t.Errorf("%d models, want %d", got, len(docs))
	}
	docs[7].Value = []byte("beta: true")
	if applied, err := s.writer().Apply(s.ctx(), docs); err != nil || len(applied.Created) != 0 || len(applied.Unchanged) != len(docs)-1 {
		t.Error(applied, err)
	}
}

// Of many that create the same document at once, one succeeds, and its document is not replaced.
func TestCreateNeverReplaces(t *testing.T) {
	s := start(t)
	var creators sync.WaitGroup
	var created atomic.Int64
	for n := range 20 {
		creators.Go(func() {
			doc := document.Raw{Key: "keys/laptop", Value: fmt.Appendf(nil, "{account: a%d, sha256: '%064d'}", n, n)}
			switch err := s.writer().Create(s.ctx(), doc); {
			case err == nil:
				created.Store(int64(n))
			case !errors.Is(err, etcd.ErrExists):
				t.Error(err)
			}
		})
	}
	creators.Wait()
	stored := s.get("keys/laptop")
	if want := fmt.Sprintf("account: a%d,", created.Load()); !strings.Contains(string(stored.Value), want) || stored.Version != 1 {
		t.Errorf("version %d of the document is %s, want %s", stored.Version, stored.Value, want)
	}
	var invalid *document.InvalidError
	if err := s.writer().Create(s.ctx(), document.Raw{Key: "keys/phone", Value: []byte("{}")}); !errors.As(err, &invalid) || s.get("keys/phone") != nil {
		t.Errorf("a bad document: %v", err)
	}
}

// Of documents with a bad one, or two of one key, none is put, and the error names all bad ones.
func TestApplyAllOrNothing(t *testing.T) {
	s := start(t)
	docs := []document.Raw{
		{Key: "models/a", Value: []byte("{}")},
		{Key: "models/b", Value: []byte("x: 1")},
		{Key: "pools/c", Value: []byte("queue: {limit: -1}")},
		{Key: "models/a", Value: []byte("{}")},
	}
	_, err := s.writer().Apply(s.ctx(), docs)
	for _, want := range []string{"models/b: x: unknown field", "pools/c: queue.limit: -1", "models/a: the key is given twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if s.get("models/a") != nil {
		t.Error("one was put")
	}
}

// Delete deletes more documents than one transaction can hold, and says which were there.
func TestDelete(t *testing.T) {
	s := start(t)
	var docs []document.Raw
	var keys []string
	for i := range 150 { // more than a transaction can hold
		keys = append(keys, fmt.Sprintf("models/m%d", i))
		if i%2 == 0 {
			docs = append(docs, document.Raw{Key: keys[i], Value: []byte("{}")})
		}
	}
	kept := document.Raw{Key: "models/m", Value: []byte("{}")}
	if _, err := s.writer().Apply(s.ctx(), append(docs, kept)); err != nil {
		t.Fatal(err)
	}
	found, err := s.writer().Delete(s.ctx(), keys)
	if err != nil || len(found) != len(docs) || found[1] != "models/m2" {
		t.Errorf("found %v, %v", found, err)
	}
	if s.get("models/m0") != nil || s.get("models/m148") != nil || s.get("models/m") == nil {
		t.Error("other documents were deleted than those that were named")
	}
}
