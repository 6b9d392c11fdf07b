package document_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// FuzzCheck puts any document on top of any defaults. Nothing panics, and memory is bounded. An accepted document is
// accepted by the schema, too, causes no error later, and is the same after it was written and read again.
func FuzzCheck(f *testing.F) {
	seeds := []struct{ key, value, defaults string }{
		{"models/m", "aliases: [a]\nrouting: {steps: [{colos: [ams], attempts: 1}]}\ncost: {unit: n, input: 0.4, per: 10}", "model: {retry: {errors: 1}}"},
		{"pools/p", `{"queue": {"limit": 0, "max_wait": "1s"}}`, "pool: {permits: {per_endpoint: 4}}"},
		{"endpoints/ams/e", endpointHead + "concurrency: 0\nnames: {m: n}\npaths: {/a: /b}\ncredential: env:COLONNADE_CREDENTIAL_X", "engines: {openai: {concurrency: 3, names: {x: y}}}"},
		{"accounts/a", "models: []\nlimits: {concurrent: 0}", "version: 99\nfuture: 1"},
		{"accounts/a", "keys: [{id: k, sha256: '" + strings.Repeat("ab", 32) + "'}]", "{}"},
		{"keys/k", "account: a\nsha256: '" + strings.Repeat("ab", 32) + "'\nexpires: 2026-01-31T12:00:00.5+01:00", "{}"},
		{"endpoints/ams/e", endpointHead + "concurrency: auto\nauto: {min: 4, max: 64}", "endpoint: {auto: {min: 2, max: 3}}"},
		{"endpoints/ams/e", endpointHead + "engine: vllm", "engines: {vllm: {concurrency: auto, auto: {min: 7, max: 7}}}\npool: {permits: {per_endpoint: 9}}"},
		{"colos/ams", "region: weur\nlabels: {a: 'b c'}", "origins: ['https://x']"},
		{"colos/ams", "position: {lat: -33.9, lon: 151.2}\nlabels: {}", "model: {routing: {algorithm: flow}}"},
		{"models/m", "routing: {steps: [{labels: {a: b}, within: 20ms, pick: weighted, weights: {ams: 3, fra: 0.5}}]}", "model: {retry: {forward_below: 0}}"},
		{"models/m", "routing: {algorithm: latency, steps: [{pick: least_loaded}]}", "model: {routing: {steps: []}}"},
		{"flows/m", "regions: {weur: {ams: 3, fra: 0}, '*': {iad: 1e-3}}", "{}"},
		{"entries/e", "{address: 'h:1', position: {lat: 90, lon: -180}}", "{}"},
		{"servers/ams/s", "{address: 'h:1', boot: b, protocol: {min: 1, max: 7}, z: 1}", "{}"},
		{"servers/ams/s", "{address: 'h:1', boot: b, gossip: 'h:2', pools: {p: 4, q: 0}}", "{}"},
		{"entries/e", "address: h:1", "endpoint: {health: {path: /x}}"},
		{"models/m", "a: &a [b]\nc: [*a, *a]", "model: {routing: {steps: [{}]}}"},
		{"defaults", "engines: {vllm: {weight: 2}}", ""},
		{"models/m", "? - x\n: !!binary aGk=", "%YAML 1.1\n---\n{}"},
	}
	for _, s := range seeds {
		f.Add(s.key, []byte(s.value), []byte(s.defaults))
	}
	f.Fuzz(func(t *testing.T, key string, value, defaults []byte) {
		if len(value)+len(defaults) > 2*document.MaxSize {
			return
		}
		docs := document.NewSet()
		var err error
		used := allocated(func() {
			_ = docs.Put("defaults", defaults, 1)
			err = docs.Put(key, value, 2)
		})
		if limit := uint64(1<<20 + 2000*(len(value)+len(defaults))); used > limit {
			t.Fatalf("%d bytes of documents allocate %d, more than %d", len(value)+len(defaults), used, limit)
		}
		if !reflect.DeepEqual(document.Check(key, value) == nil, err == nil) {
			t.Fatalf("Put and Check differ: %v", err)
		}
		if err != nil {
			checkInvalid(t, err, key)
			return
		}
		if err := checkBySchema(t, key, value); err != nil {
			t.Fatalf("accepted, but not by the schema: %v", err)
		}
		table := docs.Table()
		for _, r := range table.Rejected {
			if r.Key == key {
				t.Fatalf("accepted, then rejected: %+v", r)
			}
		}
		table.Dangling()
		roundTrip(t, table)
		if k, ok := docs.Noun(key).(*fleet.APIKey); ok {
			roundTripAPIKey(t, k)
		}
	})
}

func checkInvalid(t *testing.T, err error, key string) {
	var invalid *document.InvalidError
	if !errors.As(err, &invalid) || invalid.Reason == "" || invalid.Key != key && !strings.Contains(invalid.Key, "(looks like an API key)") {
		t.Fatalf("%#v", err)
	}
	if len(invalid.Value) > 300 {
		t.Fatalf("a value of %d bytes is shown", len(invalid.Value))
	}
}

// roundTripAPIKey writes an API key as a document and reads it again.
func roundTripAPIKey(t *testing.T, k *fleet.APIKey) {
	t.Helper()
	doc, err := document.EncodeAPIKey(k)
	if err != nil {
		t.Fatal(err)
	}
	docs := document.NewSet()
	if err := docs.Put(doc.Key, doc.Value, 1); err != nil {
		t.Fatal(err)
	}
	again := docs.Noun(doc.Key).(*fleet.APIKey)
	if again.ID != k.ID || again.Account != k.Account || again.SHA256 != k.SHA256 || !again.Created.Equal(k.Created) || !again.Expires.Equal(k.Expires) {
		t.Fatalf("got %+v, want %+v", again, k)
	}
}

// roundTrip writes the nouns of a table as documents, and checks that the table of these is the same. API keys are left
// out: a table shows them without their hashes.
func roundTrip(t *testing.T, table *fleet.Table) {
	t.Helper()
	var dump struct{ Documents map[string]json.RawMessage }
	want, err := json.Marshal(table)
	if err != nil || json.Unmarshal(want, &dump) != nil {
		t.Fatalf("%s: %v", want, err)
	}
	maps.DeleteFunc(dump.Documents, func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, "keys/") })
	docs := document.NewSet()
	for key, value := range dump.Documents {
		if err := docs.Put(key, value, table.Revision); err != nil {
			t.Fatalf("%s does not survive: %v", value, err)
		}
	}
	again := docs.Table()
	if !reflect.DeepEqual(again.Models(), table.Models()) || !reflect.DeepEqual(again.Accounts(), table.Accounts()) {
		t.Fatalf("got  %+v\nwant %+v", again, table)
	}
	var back struct{ Documents map[string]json.RawMessage }
	if got, err := json.Marshal(again); err != nil || json.Unmarshal(got, &back) != nil || !reflect.DeepEqual(back, dump) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// The built-in layers keep the rules for documents.
func TestBuiltinLayersAreValid(t *testing.T) {
	docs := documents(t, "models/m", "{}", "pools/p", "{}", "colos/c", "{}", "accounts/a", "{}",
		"servers/c/s", "{address: 'h:1', boot: b}", "entries/e", "address: h:1", "flows/m", "regions: {'*': {c: 1}}")
	for _, engine := range fleet.Engines {
		if err := docs.Put("endpoints/c/"+engine, []byte("pool: p\nengine: "+engine+"\nurl: http://"+engine), 1); err != nil {
			t.Fatal(err)
		}
	}
	roundTrip(t, docs.Table())
}

// FuzzSplitFile splits any file. Each document that comes out of it can be read by itself.
func FuzzSplitFile(f *testing.F) {
	f.Add([]byte("# a\nkey: pools/a\nqueue: {limit: 1} # b\n---\nkey: models/m\nbeta: yes\n"))
	f.Add([]byte(`{"key": "pools/a", "x": [1, 2.5, true]}`))
	f.Add([]byte("--- {key: a, b: 'x\n\n  y'}\n...\nkey: |\n  z\n"))
	f.Add([]byte("key: a\nb: 'c\nkey: d'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := document.SplitFile(data)
		if err != nil {
			return
		}
		for _, d := range docs {
			err := document.Check("pools/p", d.Value)
			if err != nil && strings.Contains(err.Error(), "the document ") {
				t.Fatalf("%q becomes %q: %v", data, d.Value, err)
			}
		}
	})
}
