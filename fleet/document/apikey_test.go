package document_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// apiKey returns the document of an API key.
func apiKey(account string, sum [32]byte) string {
	return fmt.Sprintf("{account: %s, sha256: %q}", account, hex.EncodeToString(sum[:]))
}

func TestAPIKeyByHash(t *testing.T) {
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	alike, unlike := one, one // in their first bytes
	alike[31]++
	unlike[31]--
	table := documents(t,
		"keys/k4", apiKey("c", alike),
		"keys/k3", apiKey("b", one),
		"keys/k2", apiKey("b", two),
		"keys/k1", apiKey("a", one),
		"accounts/a", "{}",
	).Table()
	f := func(sum [32]byte, id, account string) {
		t.Helper()
		if k, ok := table.APIKeyByHash(sum); !ok || k.ID != id || k.Account != account {
			t.Errorf("%+v, %v; want %s of %s", k, ok, id, account)
		}
	}
	f(one, "k1", "a")
	f(two, "k2", "b")
	f(alike, "k4", "c")
	for _, unknown := range [][32]byte{{}, unlike} {
		if k, ok := table.APIKeyByHash(unknown); ok || k != nil {
			t.Error("an unknown key was found")
		}
	}
	if want := []fleet.Conflict{{What: "key", Value: "k3", Winner: "keys/k1", Loser: "keys/k3"}}; !reflect.DeepEqual(table.Conflicts, want) {
		t.Errorf("conflicts %+v", table.Conflicts)
	}
	if k, ok := new(fleet.Table).APIKeyByHash(one); ok || k != nil {
		t.Error("an empty table has a key")
	}
}

// A change of an API key is in the next table and in no table before it.
func TestAPIKeysChange(t *testing.T) {
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	docs := documents(t, "keys/k", apiKey("a", one))
	want := func(table *fleet.Table, sum [32]byte, account string) {
		t.Helper()
		k, ok := table.APIKeyByHash(sum)
		if ok != (account != "") || ok && k.Account != account {
			t.Errorf("found %+v, %v; want the account %q", k, ok, account)
		}
	}
	put := func(key, value string) error { return docs.Put(key, []byte(value), 7) }
	first := docs.Table()
	_ = put("keys/k", apiKey("b", two))
	second := docs.Table()
	if err := put("keys/k", "account: c"); err == nil {
		t.Error("a document without a hash is accepted")
	}
	rejected := docs.Table()
	if len(rejected.Rejected) != 1 || !rejected.Rejected[0].LastGood || rejected.Rejected[0].InForce != 7 {
		t.Errorf("rejected %+v", rejected.Rejected)
	}
	docs.Delete("keys/k", 8)
	deleted := docs.Table()
	if len(deleted.Rejected) != 0 {
		t.Errorf("rejected %+v", deleted.Rejected)
	}
	want(first, one, "a")
	want(first, two, "")
	for _, table := range []*fleet.Table{second, rejected} {
		want(table, one, "")
		want(table, two, "b")
	}
	want(deleted, two, "")
	// A document that yields gives way to another one with the same hash, until it is put again.
	_ = put("keys/k", apiKey("a", one))
	_ = put("keys/other", apiKey("b", one))
	want(docs.Table(), one, "a")
	docs.Yield("keys/k")
	want(docs.Table(), one, "b")
	_ = put("keys/k", apiKey("a", one))
	want(docs.Table(), one, "a")
}

// A whole API key is no ID of one, and the error does not repeat it.
func TestAPIKeyIsNoID(t *testing.T) {
	for _, key := range []string{"cn_k_SECRET", "sk-SECRET"} {
		err := document.Check("keys/"+key, []byte(apiKey("acme", [32]byte{})))
		if err == nil || !strings.Contains(err.Error(), `keys/<id> has the id of an API key, which is what stands in it between "cn_" and its last "_"`) ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Pages that show a table name the API keys and show no hash.
func TestTableShowsNoHashes(t *testing.T) {
	sum := sha256.Sum256([]byte("one"))
	shown, err := json.Marshal(documents(t, "keys/laptop", strings.TrimSuffix(apiKey("acme", sum), "}")+", expires: 2027-01-31T12:00:00Z}").Table())
	if err != nil || !bytes.Contains(shown, []byte(`"keys/laptop":{"account":"acme","expires":"2027-01-31T12:00:00Z"}`)) {
		t.Errorf("%v: %s", err, shown)
	}
	if bytes.Contains(shown, []byte(hex.EncodeToString(sum[:]))) {
		t.Errorf("the table shows a hash: %s", shown)
	}
}

func TestAPIKeyExpiredAt(t *testing.T) {
	at := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	f := func(expires, now time.Time, want bool) {
		t.Helper()
		if got := (&fleet.APIKey{Expires: expires}).ExpiredAt(now); got != want {
			t.Errorf("expires %v, at %v: %v", expires, now, got)
		}
	}
	f(time.Time{}, at, false)
	f(at, at.Add(-1), false)
	f(at, at, true)
	f(at, at.Add(1), true)
}

// manyAPIKeys returns documents of n API keys, and the hash of one of them.
func manyAPIKeys(t testing.TB, n int) (docs *document.Set, sum [32]byte) {
	docs = document.NewSet()
	for i := range n {
		sum = sha256.Sum256(fmt.Appendf(nil, "cn_k%d", i))
		k := fleet.APIKey{ID: fmt.Sprintf("k%09d", i), Account: fmt.Sprintf("account-%d", i/10), SHA256: sum, Created: time.Unix(int64(i), 0).UTC()}
		doc, err := document.EncodeAPIKey(&k)
		if err != nil {
			t.Fatal(err)
		}
		if err := docs.Put(doc.Key, doc.Value, 1); err != nil {
			t.Fatal(err)
		}
	}
	return docs, sum
}

// Beside many API keys (100 000 in a soak), a table costs nothing for them unless one has changed, and the memory of each is
// bounded.
func TestManyAPIKeys(t *testing.T) {
	n := testkit.AtScale(20_000, 100_000)
	var docs *document.Set
	var sum [32]byte
	before := heap()
	docs, sum = manyAPIKeys(t, n)
	table := docs.Table()
	each := (heap() - before) / uint64(n)
	t.Logf("%d bytes for each of %d API keys", each, n)
	if each > 400 {
		t.Errorf("%d bytes for each of %d API keys", each, n)
	}
	if k, ok := table.APIKeyByHash(sum); !ok || k.ID != fmt.Sprintf("k%09d", n-1) {
		t.Errorf("found %+v, %v", k, ok)
	}
	put := func(key, value string) {
		t.Helper()
		if err := docs.Put(key, []byte(value), 2); err != nil {
			t.Fatal(err)
		}
	}
	put("models/m", "{}")
	if cost := testing.AllocsPerRun(10, func() { table = docs.Table() }); cost > 200 {
		t.Errorf("a table of one model and the same API keys takes %.0f allocations", cost)
	}
	if _, ok := table.APIKeyByHash(sum); !ok {
		t.Error("the next table lost an API key")
	}
	runtime.KeepAlive(docs)
}

// heap returns the bytes of the heap in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkAPIKeys measures finding one of many API keys, and building a table after one of them or something else has
// changed. The first and the last do not depend on the number of API keys.
func BenchmarkAPIKeys(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		docs, sum := manyAPIKeys(b, n)
		table := docs.Table()
		value := []byte(apiKey("acme", sha256.Sum256([]byte("changed"))))
		b.Run(fmt.Sprintf("find/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := table.APIKeyByHash(sum); !ok {
					b.Fatal("not found")
				}
			}
		})
		b.Run(fmt.Sprintf("change/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = docs.Put("keys/changed", value, 2)
				docs.Table()
			}
		})
		b.Run(fmt.Sprintf("other/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = docs.Put("models/m", []byte("{}"), 2)
				docs.Table()
			}
		})
	}
}
