package registration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/discovery/engines"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
	"colonnade/worker/registration"
	"colonnade/worker/wire"
)

// The documents of models and pools that are lacking are created as one change by "register"; those that exist stay as they are.
func TestModelsAreCreated(t *testing.T) {
	s := start(t)
	s.put("pools/llama", "queue: {limit: 7}")
	full := state("gpu-7", "llama", 4)
	full.Models = append(full.Models,
		document.Raw{Key: "models/llama-lora", Value: []byte("type: chat\npool: llama\n")},
		document.Raw{Key: "models/known-alias", Value: []byte("type: chat\npool: llama\n")},
		document.Raw{Key: "pools/other", Value: []byte("queue: {limit: 1}\n")})
	s.put("models/with-alias", "{type: chat, pool: llama, aliases: [known-alias], upstream_name: x}")
	r := s.run(s.config())
	r.put(full)
	want := map[string]string{
		"pools/llama": "queue: {limit: 7}", "models/llama": string(full.Models[1].Value), "models/llama-lora": "type: chat\npool: llama\n",
		"models/known-alias": "", "pools/other": "",
	}
	for key, value := range want {
		if got := s.value(key); got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	var by etcd.Author
	if err := json.Unmarshal([]byte(s.value(etcd.AuthorKey)), &by); err != nil || by.User != "register" || by.Host != "gpu-7" || !strings.Contains(by.Command, "gpu-7") {
		t.Errorf("author %+v, %v", by, err)
	}
	if kv := s.get("models/llama"); kv.Lease != 0 || s.get("models/llama-lora").ModRevision != kv.ModRevision {
		t.Error("the models have a lease, or were created by several changes")
	}

	// A second worker of the pool changes nothing.
	before := s.get(etcd.AuthorKey).ModRevision
	c := s.config()
	c.Node = "gpu-8"
	second := s.run(c)
	next := state("gpu-8", "llama", 4)
	next.Endpoint = document.Raw{Key: "endpoints/ams/8", Value: []byte("{url: 'http://10.0.0.8:8000', pool: llama, concurrency: 1}")}
	next.Models[1].Value = []byte("{type: chat, pool: llama, beta: true}")
	second.put(next)
	if s.get(etcd.AuthorKey).ModRevision != before || s.value("models/llama") != want["models/llama"] {
		t.Error("the second worker changed documents")
	}
	second.end(nil)
	r.end(nil)
}

// Many workers that start at once create each document once.
func TestModelsAreCreatedOnce(t *testing.T) {
	s := start(t)
	var all []*running
	for _, node := range []string{"a", "b", "c", "d"} {
		c := s.config()
		c.Node = node
		r := s.run(c)
		next := state(node, "llama", 4)
		next.Endpoint = document.Raw{Key: "endpoints/ams/" + node, Value: []byte("{url: 'http://" + node + ":8000', pool: llama, concurrency: 1}")}
		r.Set(next)
		all = append(all, r)
	}
	for _, r := range all {
		if err := r.Stored(s.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	if kv := s.get("models/llama"); kv == nil || kv.Version != 1 {
		t.Errorf("%+v, want one version", kv)
	}
	for _, r := range all {
		r.end(nil)
	}
}

// An engine all of whose models belong to other pools would get no requests, which is an error; one with a model of its pool is not.
func TestPoolOfModels(t *testing.T) {
	s := start(t)
	s.put("models/llama", "{type: chat, pool: big}")
	s.put("models/other", "{type: chat, aliases: [o]}")
	r := s.run(s.config())
	for model, want := range map[string]string{"llama": "big", "other": "other", "o": "other", "none": ""} {
		if got, err := r.PoolOf(s.ctx(), model); got != want || err != nil {
			t.Errorf("the pool of %s is %q, %v; want %q", model, got, err, want)
		}
	}
	r.Set(state("gpu-7", "small", 4))
	_ = r.fails(`models/llama names the pool "big"`, `"small"`, "-pool big")
	if s.get(endpointKey) != nil || s.get("pools/small") != nil || s.value("models/llama") != "{type: chat, pool: big}" {
		t.Error("documents were put all the same")
	}

	mixed := state("gpu-7", "small", 4)
	mixed.Models = append(mixed.Models, document.Raw{Key: "models/lora", Value: []byte("{type: chat, pool: small}")})
	again := s.run(s.config())
	again.put(mixed)
	testkit.WaitFor(t, "the model of the pool", func() bool { return s.get("models/lora") != nil && s.get("pools/small") != nil })
	again.end(nil)
}

// A document that is not valid ends Run, and says why.
func TestInvalidDocuments(t *testing.T) {
	s := start(t)
	bad := state("gpu-7", "llama", 4)
	bad.Endpoint.Value = []byte("url: nowhere")
	r := s.run(s.config())
	r.Set(bad)
	_ = r.fails(endpointKey, "url", "nowhere")
	bad = state("gpu-7", "llama", 4)
	bad.Worker.Engine.State = "tired"
	r = s.run(s.config())
	r.Set(bad)
	_ = r.fails(workerKey, "tired")
}

// While another worker has registered the engine's URL under another key, the endpoint waits, and no request can be in flight because of it.
func TestEngineOfAnotherWorker(t *testing.T) {
	s := start(t)
	first := s.run(s.config())
	first.put(state("gpu-7", "llama", 8))
	c, other := s.config(), state("gpu-8", "llama", 8)
	c.Node = "gpu-8"
	other.Worker.Engine.Endpoint, other.Endpoint.Key = "other", "endpoints/ams/other"
	second := s.run(c)
	second.Set(other)
	testkit.WaitFor(t, "the reason", func() bool {
		return strings.Contains(s.log.String(), "another worker has registered the engine at "+ownURL+", as "+endpointKey)
	})
	if n, err := second.InFlight(s.ctx()); n != 0 || err != nil || s.value("endpoints/ams/other") != "" {
		t.Errorf("in flight: %d, %v; %q is stored", n, err, s.value("endpoints/ams/other"))
	}
	out := other
	out.Worker.Engine.State = fleet.WorkerDraining
	second.Set(out)
	if err := second.Stored(s.ctx()); err != nil {
		t.Errorf("the end waits for an endpoint that was not registered: %v", err)
	}
	second.Set(other)
	first.end(nil)
	if err := second.Stored(s.ctx()); err != nil || s.value("endpoints/ams/other") == "" {
		t.Errorf("the endpoint is not registered after the end of the other worker: %v", err)
	}
}

// A model or an adapter that the engine lists later gets its document, too.
func TestModelsThatAreListedLater(t *testing.T) {
	s := start(t)
	r := s.run(s.config())
	r.put(state("gpu-7", "llama", 4))
	later := state("gpu-7", "llama", 4)
	later.Models = append(later.Models, document.Raw{Key: "models/llama-lora", Value: []byte("type: chat\npool: llama\n")})
	r.put(later)
	testkit.WaitFor(t, "the document of the adapter", func() bool { return s.value("models/llama-lora") == "type: chat\npool: llama\n" })
	r.end(nil)
}

// By an API key, a worker adds models to pools that no operator's model names, and never takes a name that another model has.
func TestAdditions(t *testing.T) {
	t.Parallel()
	set := document.NewSet()
	put := func(key, value string) {
		t.Helper()
		if err := set.Put(key, []byte(value), 1); err != nil {
			t.Fatal(err)
		}
	}
	put("models/big", "{pool: operators, aliases: [default, short]}")
	put("models/mine", "{pool: own, registered_by: gpus 1}")
	put("models/moved", "{pool: own, registered_by: gpus 1}")
	put("models/theirs", "{pool: shared, registered_by: more 2}")
	f := func(by string, docs []document.Raw, want ...string) {
		t.Helper()
		var got []string
		for _, d := range registration.Additions(set.Table(), docs, by) {
			got = append(got, d.Key+" "+string(d.Value))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	model := func(name, text string) document.Raw { return document.Raw{Key: "models/" + name, Value: []byte(text)} }
	pool := func(name string) document.Raw { return document.Raw{Key: "pools/" + name, Value: []byte("{}")} }
	const ofKey = "registered_by: gpus 1\n"

	f("gpus 1", []document.Raw{pool("operators"), model("evil", "pool: operators\n"+ofKey)})
	f("gpus 1", []document.Raw{pool("operators"), model("moved", "pool: operators\n"+ofKey)})
	f("gpus 1", []document.Raw{pool("own"), model("mine", "pool: own\n"+ofKey), model("lora", "pool: own\n"+ofKey)},
		"models/mine pool: own\n"+ofKey, "models/lora pool: own\n"+ofKey, "pools/own {}")
	f("gpus 1", []document.Raw{model("theirs", "pool: own\n"+ofKey), model("big", "pool: own\n"+ofKey)})
	f("gpus 1", []document.Raw{model("theirs", "pool: shared\n"+ofKey), model("mine", "pool: fresh\n"+ofKey)},
		"models/theirs pool: shared\n"+ofKey, "models/mine pool: fresh\n"+ofKey)
	f("gpus 1", []document.Raw{pool("fresh"), model("default", "pool: fresh\n"+ofKey)})
	f("gpus 1", []document.Raw{pool("fresh"), model("short:latest", "pool: fresh\naliases: [short]\n"+ofKey)},
		"models/short:latest pool: fresh\n"+ofKey, "pools/fresh {}")
	f("gpus 1", []document.Raw{pool("none")})
	f("", []document.Raw{pool("operators"), model("more", "pool: operators\n"), model("default", "pool: x\n")}, "models/more pool: operators\n", "pools/operators {}")

	var many []document.Raw
	for i := range 1001 {
		many = append(many, model(fmt.Sprint("m", i), "pool: many\n"+ofKey))
	}
	if got := len(registration.Additions(set.Table(), many, "gpus 1")); got != 998 { // two are there
		t.Errorf("%d models were added", got)
	}
	for _, d := range many[:600] {
		put(d.Key, string(d.Value))
	}
	if got := len(registration.Additions(set.Table(), many[:900], "gpus 1")); got != 900 {
		t.Errorf("%d models were added to those that are there", got)
	}
}

// The fields that an API key may set are those that register writes.
func TestFieldsOfModels(t *testing.T) {
	t.Parallel()
	e := &engines.Engine{URL: "http://10.0.0.7:11434", Kind: "ollama", Models: []engines.Model{{Name: "llama:latest", Upstream: "llama:latest", Type: "chat", MaxModelLen: 8, Note: "x"}, {Name: "b", Upstream: "c", Type: "chat", Base: "llama:latest"}}}
	_, shared, err := engines.Place{Colo: "ams", ID: "e", Pool: "p"}.Register(e)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range shared {
		kind, _, _ := strings.Cut(d.Key, "/")
		fields, _ := document.Fields(d.Key, d.Value)
		for name := range fields {
			seen[kind+"."+name] = true
			if !slices.Contains(wire.Fields(fleet.Kind(kind)), name) {
				t.Errorf("register writes %s into %s", name, d.Key)
			}
		}
	}
	if !seen["models.aliases"] || !seen["models.pool"] || !seen["models.type"] || !seen["pools.queue"] {
		t.Errorf("register writes only %v", seen)
	}
}

// The pool of an operator's model is closed to API keys also while nodes do not accept the model's document.
func TestAdditionsBesideABadModel(t *testing.T) {
	s := start(t)
	s.put("models/bad", "{pool: llama, bogus: 1}")
	s.put("models/unreadable", "pool: [")
	s.put("models/own", "{pool: own, registered_by: gpus 1, bogus: 1}")
	f := func(node, pool string, created bool) {
		t.Helper()
		c := s.config()
		c.Node = node
		full := state(node, pool, 4)
		full.Worker.RegisteredBy = "gpus 1"
		full.Models = []document.Raw{{Key: "models/more-" + pool, Value: []byte("pool: " + pool + "\nregistered_by: gpus 1\n")}}
		r := s.run(c)
		r.put(full)
		if got := s.get("models/more-"+pool) != nil; got != created {
			t.Errorf("a model of the pool %s was created: %v", pool, got)
		}
		r.end(nil)
	}
	f("gpu-7", "llama", false)
	f("gpu-8", "unreadable", false)
	f("gpu-9", "own", true)
}
