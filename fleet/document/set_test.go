package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// documents returns a set of good documents: key, value, key, value…
func documents(t *testing.T, pairs ...string) *document.Set {
	t.Helper()
	docs := document.NewSet()
	for i := 0; i < len(pairs); i += 2 {
		if err := docs.Put(pairs[i], []byte(pairs[i+1]), int64(i/2+1)); err != nil {
			t.Fatal(err)
		}
	}
	return docs
}

func model(t *testing.T, table *fleet.Table, name string) *fleet.Model {
	t.Helper()
	m, ok := table.Model(name)
	if !ok {
		t.Fatalf("no model %q", name)
	}
	return m
}

func TestBuiltinModel(t *testing.T) {
	m := model(t, documents(t, "models/m", "{}").Table(), "m")
	want := &fleet.Model{
		Name: "m", Type: fleet.TypeGeneric, Pool: "m", UpstreamName: "m", AnswerModel: "engine",
		Routing: fleet.Routing{Algorithm: fleet.AlgorithmSteps, Steps: []fleet.Step{{Pick: fleet.PickOrder}}},
		Retry:   fleet.Retry{Errors: 3, OutOfCapacity: 4, Hops: 4, ForwardBelow: 256 * fleet.KiB},
		Timeouts: fleet.Timeouts{
			Connect: seconds(1), FirstByte: seconds(60), Idle: seconds(60), Total: seconds(600), WebSocket: seconds(3600),
		},
		MaxBody: 16 * fleet.MiB, MaxCompletions: 128, MaxInputs: 2048,
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
}

func seconds(n int) fleet.Duration { return fleet.Duration(time.Duration(n) * time.Second) }

func TestBuiltinPool(t *testing.T) {
	want := fleet.Pool{
		Name:    "p",
		Permits: fleet.PoolPermits{MaxShare: 1, RealtimeShare: 0.5},
		Queue: fleet.Queue{
			Discipline: fleet.DisciplineFair, Cost: fleet.CostTokens, Limit: 256, PerAccount: 64, Bytes: 64 * fleet.MiB,
			MaxWait: seconds(10), SpillWait: fleet.Duration(250 * time.Millisecond), PromoteAfter: seconds(5),
		},
		Balance: fleet.Balance{
			Policy: fleet.PolicyLeastLoaded, LoadFactor: 1.25, AdapterPending: 4, Score: fleet.BalanceScore{Prefix: 3, Load: 1, Latency: 1},
			Prefix: fleet.BalancePrefix{By: fleet.PrefixByIndex, Messages: 2, Memory: 64 * fleet.MiB, MaxAge: seconds(3600)},
		},
	}
	if got := document.NewSet().Table().Pool("p"); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	if got := documents(t, "pools/p", "{}").Table().Pool("p"); !reflect.DeepEqual(*got, want) {
		t.Errorf("with an empty document: got  %+v\nwant %+v", *got, want)
	}
}

// Sessions hold their slots for long: one account gets half of a pool with only realtime models, unless a document sets
// max_share.
func TestShareOfRealtimePools(t *testing.T) {
	f := func(want float64, docs ...string) {
		t.Helper()
		if got := documents(t, docs...).Table().Pool("p").Permits.MaxShare; got != want {
			t.Errorf("%q: max_share %v, want %v", docs, got, want)
		}
	}
	const talk, chat = "{type: realtime, pool: p}", "{type: chat, pool: p}"
	f(1, "models/a", chat)
	f(0.5, "models/a", talk)
	f(0.5, "models/a", talk, "models/b", talk, "pools/p", "permits: {per_endpoint: 4}")
	f(1, "models/a", talk, "models/b", chat)
	f(1, "models/a", talk, "pools/p", "permits: {max_share: 1}")
	f(0.25, "models/a", talk, "pools/p", "permits: {max_share: 0.25}")
	f(0.8, "models/a", talk, "defaults", "pool: {permits: {max_share: 0.8}}")
	f(1, "pools/p", "{}")
}

// Requests of a lower priority get a turn before their wait is over, unless a document sets promote_after.
func TestPromoteAfterIsLessThanMaxWait(t *testing.T) {
	f := func(want time.Duration, docs ...string) {
		t.Helper()
		if got := documents(t, docs...).Table().Pool("p").Queue.PromoteAfter.Std(); got != want {
			t.Errorf("%q: promote_after %v, want %v", docs, got, want)
		}
	}
	f(5*time.Second, "pools/p", "{}")
	f(5*time.Second, "pools/p", "queue: {max_wait: 1m}")
	f(1500*time.Millisecond, "pools/p", "queue: {max_wait: 3s}")
	f(1500*time.Millisecond, "defaults", "pool: {queue: {max_wait: 3s}}")
	f(1500*time.Millisecond, "defaults", "pool: {queue: {max_wait: 3s}}", "pools/p", "queue: {limit: 7}")
	f(4*time.Second, "pools/p", "queue: {max_wait: 3s, promote_after: 4s}")
	f(4*time.Second, "pools/p", "queue: {max_wait: 3s}", "defaults", "pool: {queue: {promote_after: 4s}}")
	f(0, "pools/p", "queue: {promote_after: 0s}")
}

// Layers that set some weights of score to 0 each, and together all, leave those that are built in.
func TestScoreHasAWeight(t *testing.T) {
	f := func(want fleet.BalanceScore, docs ...string) {
		t.Helper()
		if got := documents(t, docs...).Table().Pool("p").Balance.Score; got != want {
			t.Errorf("%q: weights %v, want %v", docs, got, want)
		}
	}
	builtin := fleet.BalanceScore{Prefix: 3, Load: 1, Latency: 1}
	f(builtin, "pools/p", "{}")
	f(fleet.BalanceScore{Load: 1, Latency: 1}, "pools/p", "balance: {score: {prefix: 0}}")
	f(fleet.BalanceScore{Load: 2}, "defaults", "pool: {balance: {score: {prefix: 0, latency: 0}}}", "pools/p", "balance: {score: {load: 2}}")
	f(builtin, "defaults", "pool: {balance: {score: {prefix: 0, latency: 0}}}", "pools/p", "balance: {score: {load: 0}}")
}

func TestBuiltinEndpoints(t *testing.T) {
	f := func(engine string, concurrency int, path string, timeout time.Duration) {
		t.Helper()
		table := documents(t, "endpoints/ams/e", endpointHead+"engine: "+engine).Table()
		e := table.Endpoints("ams", "p")[0]
		if e.Concurrency != concurrency || e.Health.Path != path || e.Health.Timeout.Std() != timeout || e.Weight != 1 || e.Usage != fleet.UsageAsk {
			t.Errorf("%s: got %+v", engine, e)
		}
		if e.Health.Interval < seconds(5) {
			t.Errorf("%s: interval %v", engine, e.Health.Interval)
		}
	}
	f("vllm", 16, "/health", 2*time.Second)
	f("sglang", 16, "/health", 20*time.Second)
	f("tgi", 16, "/health", 2*time.Second)
	f("tei", 32, "/health", 2*time.Second)
	f("llamacpp", 1, "/health", 2*time.Second)
	f("ollama", 1, "/api/version", 5*time.Second)
	f("triton", 8, "/health/ready", 2*time.Second)
	f("openai", 8, "/v1/models", 5*time.Second)

	e := documents(t, "endpoints/ams/e", endpointHead).Table().Endpoints("ams", "p")[0]
	if e.Engine != fleet.EngineOpenAI || e.Colo != "ams" || e.ID != "e" || e.Pool != "p" {
		t.Errorf("without an engine: %+v", e)
	}
}

func TestBuiltinRest(t *testing.T) {
	docs := documents(t, "colos/ams", "{}", "accounts/a", "{}", "servers/ams/s", "{address: 'h:1', boot: b}", "entries/e", "address: h:1")
	table := docs.Table()
	if c, ok := table.Colo("ams"); !ok || c.State != fleet.StateActive || c.Name != "ams" {
		t.Errorf("colo %+v", c)
	}
	a, ok := table.Account("a")
	if !ok || a.Weight != 1 || a.Priority != fleet.PriorityStandard || a.Models != nil || a.Limits.Concurrent == 0 {
		t.Errorf("account %+v", a)
	}
	other := table.AccountOrDefault("other")
	if other.Name != "other" {
		t.Errorf("an account without a document has the name %q", other.Name)
	}
	if other.Name = "a"; !reflect.DeepEqual(other, a) || table.AccountOrDefault("a") != a {
		t.Errorf("default account %+v, want %+v", other, a)
	}
	s := table.Servers("ams")[0]
	if s.State != fleet.StateActive || s.Colo != "ams" || s.Node != "s" || s.Protocol != (fleet.ProtocolRange{Min: 1, Max: 1}) {
		t.Errorf("server %+v", s)
	}
	if e, ok := docs.Noun("entries/e").(*fleet.EntryNode); !ok || e.Node != "e" || e.Address != "h:1" {
		t.Errorf("entry %+v", e)
	}
}

// Nodes write their documents from these structs, and need not set fields with a default.
func TestNodeDocuments(t *testing.T) {
	f := func(key string, noun any) {
		t.Helper()
		value, err := json.Marshal(noun)
		if err == nil {
			err = document.Check(key, value)
		}
		if err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	f("servers/ams/s", fleet.Server{Address: "10.0.0.1:8443", Boot: "b"})
	f("servers/ams/s", fleet.Server{
		Address: "[::1]:8443", Admin: "h:2", Boot: "b", State: fleet.StateDraining,
		Protocol: fleet.ProtocolRange{Min: 1, Max: fleet.Protocol}, Version: "0.1.0", Gossip: "h:3", Pools: map[string]int{"p/q": 0, "r": 16},
	})
	f("servers/ams/s", fleet.Server{Address: "h:1", Boot: "b", Pools: fleet.RegisteredPools(longNames(256))})
	f("entries/e", fleet.EntryNode{Address: "h:1"})
}

// longNames returns n pools with the longest names that there are, and more slots than a document may have.
func longNames(n int) map[string]int {
	slots := map[string]int{}
	for i := range n {
		slots[fmt.Sprintf("p%0127d", i)] = math.MaxInt
	}
	return slots
}

// Maps are merged, lists replace those below as a whole, absent means the layer below, and 0 means none.
func TestLayers(t *testing.T) {
	table := documents(t,
		"models/m", `
routing: {steps: [{regions: [weur]}, {}]}
retry: {errors: 0}
timeouts: {idle: 5s}
`,
		"models/other", "{}",
		"defaults", `
model:
  retry: {errors: 9, hops: 2}
  timeouts: {idle: 7s, total: 70s}
  routing: {algorithm: random, steps: [{colos: [ams, fra], pick: random, attempts: 7}, {attempts: 2}, {attempts: 3}]}
`).Table()
	m := model(t, table, "m")
	if want := []fleet.Step{{Regions: []string{"weur"}, Pick: "order"}, {Pick: "order"}}; !reflect.DeepEqual(m.Routing.Steps, want) {
		t.Errorf("steps %+v, want %+v", m.Routing.Steps, want)
	}
	if m.Routing.Algorithm != fleet.AlgorithmRandom {
		t.Errorf("algorithm %q", m.Routing.Algorithm)
	}
	if want := (fleet.Retry{Errors: 0, OutOfCapacity: 4, Hops: 2, ForwardBelow: 256 * fleet.KiB}); m.Retry != want {
		t.Errorf("retry %+v, want %+v", m.Retry, want)
	}
	if m.Timeouts.Idle != seconds(5) || m.Timeouts.Total != seconds(70) || m.Timeouts.Connect != seconds(1) {
		t.Errorf("timeouts %+v", m.Timeouts)
	}
	other := model(t, table, "other")
	if len(other.Routing.Steps) != 3 || other.Routing.Steps[0].Attempts != 7 || other.Retry.Errors != 9 {
		t.Errorf("other %+v", other)
	}
}

func TestEndpointLayers(t *testing.T) {
	endpoint := func(pairs ...string) *fleet.Endpoint {
		t.Helper()
		return documents(t, pairs...).Table().Endpoints("ams", "p")[0]
	}
	f := func(want int, pairs ...string) {
		t.Helper()
		if got := endpoint(pairs...).Concurrency; got != want {
			t.Errorf("concurrency %d, want %d: %q", got, want, pairs)
		}
	}
	general := []string{"defaults", "endpoint: {concurrency: 2}"}
	engine := []string{"defaults", "endpoint: {concurrency: 2}\nengines: {vllm: {concurrency: 3}}"}
	pool := []string{"pools/p", "permits: {per_endpoint: 4}"}
	plain, own := endpointHead+"engine: vllm\n", endpointHead+"engine: vllm\nconcurrency: 5\n"
	const key = "endpoints/ams/e"
	f(16, key, plain)
	f(2, append(general, key, plain)...)
	f(3, append(engine, key, plain)...)
	f(4, append(append(engine, pool...), key, plain)...)
	f(4, append([]string{key, plain}, append(engine, pool...)...)...) // in any order
	f(5, append(append(engine, pool...), key, own)...)
	f(6, "defaults", "pool: {permits: {per_endpoint: 6}}", key, plain)
	f(0, append(pool, key, endpointHead+"concurrency: 0")...)

	e := endpoint("defaults", "endpoint: {engine: sglang, names: {a: x, b: x}, health: {timeout: 9s}}\nengines: {sglang: {health: {interval: 33s}}}",
		key, endpointHead+"names: {b: q, c: z}\n")
	if e.Engine != "sglang" || !reflect.DeepEqual(e.Names, map[string]string{"a": "x", "b": "q", "c": "z"}) {
		t.Errorf("endpoint %+v", e)
	}
	if e.Health != (fleet.Health{Path: "/health", Interval: seconds(33), Timeout: seconds(9), Silence: seconds(60)}) {
		t.Errorf("health %+v", e.Health)
	}
}

// A change of a layer reaches the nouns that were built on it, also after a table was made.
func TestLayersChange(t *testing.T) {
	docs := documents(t, "models/m", "{}", "endpoints/ams/e", endpointHead, "pools/p", "{}")
	first := docs.Table()
	put := func(key, value string) *fleet.Table {
		t.Helper()
		if err := docs.Put(key, []byte(value), 10); err != nil {
			t.Fatal(err)
		}
		return docs.Table()
	}
	check := func(table *fleet.Table, errors, limit, concurrency int) {
		t.Helper()
		m, p, e := model(t, table, "m"), table.Pool("p"), table.Endpoints("ams", "p")[0]
		if m.Retry.Errors != errors || p.Queue.Limit != limit || e.Concurrency != concurrency {
			t.Errorf("retry.errors %d, queue.limit %d, concurrency %d", m.Retry.Errors, p.Queue.Limit, e.Concurrency)
		}
	}
	check(first, 3, 256, 8)
	check(put("pools/p", "permits: {per_endpoint: 2}"), 3, 256, 2)
	check(put("defaults", "model: {retry: {errors: 1}}\npool: {queue: {limit: 5}}"), 1, 5, 2)
	docs.Delete("pools/p", 11)
	check(docs.Table(), 1, 5, 8)
	docs.Delete("defaults", 12)
	check(docs.Table(), 3, 256, 8)
	check(first, 3, 256, 8)
	if docs.Table().Revision != 12 || first.Revision != 3 {
		t.Errorf("revisions %d and %d", docs.Table().Revision, first.Revision)
	}
}

func TestUnchangedIsShared(t *testing.T) {
	docs := documents(t, "models/m", "{}", "models/n", "{}")
	before := docs.Table()
	if err := docs.Put("models/n", []byte("beta: true"), 3); err != nil {
		t.Fatal(err)
	}
	after := docs.Table()
	if model(t, before, "m") != model(t, after, "m") {
		t.Error("an unchanged model was built again")
	}
	if model(t, before, "n").Beta || !model(t, after, "n").Beta {
		t.Error("a changed model was not, or the old table was changed")
	}
}

func TestLastGoodKept(t *testing.T) {
	docs := documents(t, "models/m", "retry: {errors: 1}")
	err := docs.Put("models/m", []byte("retry: {errors: -1}"), 7)
	var invalid *document.InvalidError
	if !errors.As(err, &invalid) || invalid.Revision != 7 || invalid.Field != "retry.errors" || invalid.Value != "-1" {
		t.Fatalf("Put = %#v", err)
	}
	if err := docs.Put("pools/p", []byte("queue: 1"), 8); err == nil {
		t.Fatal("a bad pool was taken")
	}
	table := docs.Table()
	if model(t, table, "m").Retry.Errors != 1 || table.Revision != 8 {
		t.Errorf("table %+v", table)
	}
	want := []fleet.Rejection{
		{Key: "models/m", Revision: 7, Field: "retry.errors", Reason: "must be at least 0", LastGood: true, InForce: 1},
		{Key: "pools/p", Revision: 8, Field: "queue", Reason: "must be a map"},
	}
	if !reflect.DeepEqual(table.Rejected, want) {
		t.Errorf("rejected %+v\nwant %+v", table.Rejected, want)
	}
	if known := docs.Known(); !reflect.DeepEqual(known, []string{"models/m", "pools/p"}) {
		t.Errorf("known %q", known)
	}

	if err := docs.Put("models/m", []byte("retry: {errors: 2}"), 9); err != nil {
		t.Fatal(err)
	}
	docs.Delete("pools/p", 10)
	table = docs.Table()
	if model(t, table, "m").Retry.Errors != 2 || len(table.Rejected) != 0 {
		t.Errorf("after the cure: %+v", table)
	}
	_ = docs.Put("models/m", []byte("x"), 11)
	docs.Delete("models/m", 12)
	if table := docs.Table(); len(table.Models())+len(table.Rejected)+len(docs.Keys()) != 0 {
		t.Errorf("after the delete: %+v", table)
	}
}

func TestNewerVersion(t *testing.T) {
	docs := documents(t,
		"models/m", "version: 99\nretry: {errors: 1, style: x}\nnew: field\n",
		"defaults", "version: 99\nmodel: {new: thing, retry: {hops: 2}}\nfuture: {}\n",
		"servers/ams/s", `{"address":"h:1","boot":"b","protocol":{"min":1,"max":7},"shiny":[1]}`)
	table := docs.Table()
	m := model(t, table, "m")
	if m.Retry.Errors != 1 || m.Retry.Hops != 2 || len(table.Servers("ams")) != 1 || len(table.Rejected) != 0 {
		t.Errorf("table %+v, model %+v", table, m)
	}
}

// A flow reaches the table, and is gone from it when its document is.
func TestFlows(t *testing.T) {
	docs := documents(t, "flows/m", "regions: {weur: {ams: 3}, '*': {iad: 1}}")
	want := &fleet.Flow{Model: "m", Regions: map[string]map[string]float64{"weur": {"ams": 3}, fleet.AnyRegion: {"iad": 1}}}
	if got, ok := docs.Table().Flow("m"); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, ok := docs.Table().Flow("other"); ok {
		t.Error("another model has the flow")
	}
	if err := docs.Put("flows/m", []byte("regions: {weur: {ams: 0}}"), 2); err == nil {
		t.Error("a flow without a weight is taken")
	}
	if got, ok := docs.Table().Flow("m"); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("after a bad version: %+v", got)
	}
	docs.Delete("flows/m", 3)
	if got, ok := docs.Table().Flow("m"); ok {
		t.Errorf("after the delete: %+v", got)
	}
}

// The fields by which routing steps select and order colos have no default of their own.
func TestRoutingFields(t *testing.T) {
	table := documents(t, "models/m", "routing: {steps: [{labels: {gpu: h100}, within: 20ms, pick: weighted, weights: {ams: 3}}, {}]}\nretry: {forward_below: 0}",
		"colos/ams", "labels: {gpu: h100}\nposition: {lat: 52.37, lon: 4.9}").Table()
	m := model(t, table, "m")
	want := []fleet.Step{{
		Labels: map[string]string{"gpu": "h100"}, Within: fleet.Duration(20 * time.Millisecond), Pick: fleet.PickWeighted, Weights: map[string]float64{"ams": 3},
	}, {Pick: fleet.PickOrder}}
	if !reflect.DeepEqual(m.Routing.Steps, want) || m.Retry.ForwardBelow != 0 {
		t.Errorf("steps %+v, forward_below %v", m.Routing.Steps, m.Retry.ForwardBelow)
	}
	c, _ := table.Colo("ams")
	if c.Labels["gpu"] != "h100" || c.Position == nil || *c.Position != (fleet.Position{Lat: 52.37, Lon: 4.9}) {
		t.Errorf("colo %+v", c)
	}
}

func TestForwardHeadersLowerCase(t *testing.T) {
	m := model(t, documents(t, "models/m", "forward_headers: [X-Tenant]").Table(), "m")
	if strings.Join(m.ForwardHeaders, ",") != "x-tenant" {
		t.Errorf("got %q", m.ForwardHeaders)
	}
}

// A new field of a node's document needs a new fleet.Protocol. Otherwise nodes of the version before would reject the
// document, and lose sight of the node.
func TestNewNodeFieldNeedsNewProtocol(t *testing.T) {
	f := func(noun any, want string) {
		t.Helper()
		var fields []string
		for field := range reflect.TypeOf(noun).Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
				fields = append(fields, name)
			}
		}
		if got := strings.Join(fields, " "); got != want || fleet.Protocol != 6 {
			t.Errorf("%T of protocol %d has %s, want %s", noun, fleet.Protocol, got, want)
		}
	}
	f(fleet.Server{}, "address admin boot state protocol version gossip pools")
	f(fleet.EntryNode{}, "address admin region position state protocol version")
}

// Cached tokens cost as much as others unless a layer says less. No layer can make them dearer.
func TestPriceOfCachedTokens(t *testing.T) {
	f := func(want float64, docs ...string) {
		t.Helper()
		m, _ := documents(t, docs...).Table().Model("m")
		if got := m.Cost.CachedInput; got != want {
			t.Errorf("%q: %v for cached tokens, want %v", docs, got, want)
		}
	}
	const defaults = "defaults"
	f(4, "models/m", "cost: {input: 4, output: 8, per: 10}")
	f(1, "models/m", "cost: {input: 4, cached_input: 1, output: 8, per: 10}")
	f(0, "models/m", "cost: {input: 4, cached_input: 0, output: 8, per: 10}")
	f(0, "models/m", "{}")
	f(1, defaults, "model: {cost: {cached_input: 1}}", "models/m", "cost: {input: 4, per: 10}")
	f(4, defaults, "model: {cost: {cached_input: 5}}", "models/m", "cost: {input: 4, per: 10}") // no more than others
	f(0, defaults, "model: {cost: {input: 4, per: 10}}", "models/m", "cost: {cached_input: 0}")
}
