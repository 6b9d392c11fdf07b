package etcd_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

func TestApply(t *testing.T) {
	s := start(t)
	big := "# " + strings.Repeat("x", fleet.MaxDocument-100) + "\n"
	var docs []fleet.RawDocument
	for i := range 150 {
		value := "{}"
		if i < 30 {
			value = big + value // together more than a transaction can hold
		}
		docs = append(docs, fleet.RawDocument{Key: fmt.Sprintf("models/m%d", i), Value: []byte(value)})
	}
	if err := etcd.Apply(s.ctx(), s.client, prefix, docs); err != nil {
		t.Fatal(err)
	}
	w, _ := watch(t, etcd.Config{Client: s.client})
	ready(t, w)
	if got := len(w.Table().Models()); got != len(docs) {
		t.Errorf("%d models, want %d", got, len(docs))
	}
}

func TestApplyAllOrNothing(t *testing.T) {
	s := start(t)
	docs := []fleet.RawDocument{
		{Key: "models/a", Value: []byte("{}")},
		{Key: "models/b", Value: []byte("x: 1")},
		{Key: "pools/c", Value: []byte("queue: {limit: -1}")},
		{Key: "models/a", Value: []byte("{}")},
	}
	err := etcd.Apply(s.ctx(), s.client, prefix, docs)
	for _, want := range []string{"models/b: x: unknown field", "pools/c: queue.limit: -1", "models/a: the key is given twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if s.get("models/a") != nil {
		t.Error("one was put")
	}
}

func TestDelete(t *testing.T) {
	s := start(t)
	var docs []fleet.RawDocument
	var keys []string
	for i := range 150 { // more than a transaction can hold
		keys = append(keys, fmt.Sprintf("models/m%d", i))
		if i%2 == 0 {
			docs = append(docs, fleet.RawDocument{Key: keys[i], Value: []byte("{}")})
		}
	}
	kept := fleet.RawDocument{Key: "models/m", Value: []byte("{}")}
	if err := etcd.Apply(s.ctx(), s.client, prefix, append(docs, kept)); err != nil {
		t.Fatal(err)
	}
	found, err := etcd.Delete(s.ctx(), s.client, prefix, keys)
	if err != nil || len(found) != len(docs) || found[1] != "models/m2" {
		t.Errorf("found %v, %v", found, err)
	}
	if s.get("models/m0") != nil || s.get("models/m148") != nil || s.get("models/m") == nil {
		t.Error("other documents were deleted than those that were named")
	}
}
