package etcd_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// A watcher lists many API keys, saves them, follows their changes, and starts from the file. There are 100 000 in a soak.
func TestManyAPIKeys(t *testing.T) {
	s := start(t)
	n := testkit.AtScale(5000, 100_000)
	hash := func(i int) [32]byte { return sha256.Sum256(fmt.Append(nil, i)) }
	var docs []document.Raw
	for i := range n + 1 {
		doc, err := document.EncodeAPIKey(&fleet.APIKey{ID: fmt.Sprintf("k%d", i), Account: fmt.Sprintf("a%d", i/10), SHA256: hash(i)})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	if _, err := s.writer().Apply(t.Context(), docs[:n]); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "fleet.json")
	began := time.Now()
	w, stop := watch(t, etcd.Config{Client: dial(t, s.Address), Kinds: []string{"keys/"}, Cache: cache})
	ready(t, w)
	t.Logf("%d API keys were listed in %v", n, time.Since(began))
	found := func(i int) bool {
		_, ok := w.Table().APIKeyByHash(hash(i))
		return ok
	}
	for i := range n {
		if !found(i) {
			t.Fatalf("API key %d is not in the table", i)
		}
	}
	if err := s.writer().Create(s.ctx(), docs[n]); err != nil {
		t.Fatal(err)
	}
	testkit.Within(t, time.Second, "a new API key", func() bool { return found(n) })
	s.remove(docs[0].Key)
	testkit.Within(t, time.Second, "a revoked API key", func() bool { return !found(0) })
	stop()

	s.Stop()
	w, _ = watch(t, etcd.Config{Client: dial(t, s.Address), Kinds: []string{"keys/"}, Cache: cache, WatchTimeout: silence})
	ready(t, w)
	if found(0) || !found(1) || !found(n) {
		t.Error("the file is not what the last table was")
	}
}
