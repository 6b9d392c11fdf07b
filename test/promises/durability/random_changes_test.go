package durability_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// churn changes documents at random, and keeps a model of what nodes should have in force.
type churn struct {
	*rand.Rand
	o     *fleettest.Operator
	model *naive
	kinds map[string][]string // keys that may be changed, by what is counted together
	puts  int
	bad   int
	dels  int
}

// engineSlots is the largest concurrency in any document of the engine whose documents change.
const engineSlots = 4

func newChurn(f *fleettest.Fleet, seed uint64) *churn {
	c := &churn{Rand: rand.New(rand.NewPCG(seed, 0)), o: f.Operator(), model: newNaive(), kinds: map[string][]string{"defaults": {"defaults"}}}
	for n := range 24 {
		c.kinds["models"] = append(c.kinds["models"], fmt.Sprintf("models/m-%02d", n))
		c.kinds["pools"] = append(c.kinds["pools"], fmt.Sprintf("pools/p-%02d", n))
		c.kinds["colos"] = append(c.kinds["colos"], fmt.Sprintf("colos/waw-%02d", n))
		c.kinds["accounts"] = append(c.kinds["accounts"], fmt.Sprintf("accounts/team/%02d", n))
		c.kinds["ams"] = append(c.kinds["ams"], fmt.Sprintf("endpoints/ams/e-%02d", n))
		c.kinds["fra"] = append(c.kinds["fra"], fmt.Sprintf("endpoints/fra/e-%02d", n))
	}
	return c
}

// begin writes the documents that never change, and most of the others.
func (c *churn) begin() {
	engines := c.o.F.Engines
	c.write("defaults", fleettest.Tree{"model": fleettest.Tree{"timeouts": fleettest.Tree{"connect": "30s"}}})
	c.write("pools/demo", fleettest.Tree{"queue": fleettest.Tree{"limit": 2000, "per_account": 2000, "max_wait": "20s"}})
	c.write("models/demo-chat", fleettest.Tree{"pool": "demo", "aliases": []string{"default"}})
	c.write("models/demo-embed", fleettest.Tree{"pool": "demo", "type": "embedding"})
	c.write("models/demo-realtime", fleettest.Tree{"pool": "demo", "type": "realtime"})
	c.write("models/restless-0", fleettest.Tree{"pool": "p-00", "upstream_name": "demo-chat"})
	c.write("models/restless-1", fleettest.Tree{"pool": "p-01", "upstream_name": "demo-chat"})
	c.write("colos/ams", fleettest.Tree{"region": "region-1"})
	c.write("colos/fra", fleettest.Tree{"region": "region-2"})
	c.write("endpoints/ams/sim-1", fleettest.Tree{"url": engines[0].URL, "pool": "demo", "concurrency": 8})
	c.write("endpoints/fra/sim-1", fleettest.Tree{"url": engines[2].URL, "pool": "demo", "concurrency": 8})
	c.write("endpoints/ams/sim-2", fleettest.Tree{"url": "http://127.0.0.1:9", "pool": "p-02"})
	c.write("endpoints/fra/sim-2", fleettest.Tree{"url": "http://127.0.0.1:9", "pool": "p-02"})
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		for _, key := range c.kinds[kind][:len(c.kinds[kind])*3/4] {
			c.write(key, c.document(key))
		}
	}
}

func (c *churn) write(key string, doc fleettest.Tree) {
	c.model.put(key, doc)
	c.o.Txn(clientv3.OpPut(node.Prefix+key, c.text(doc)))
	c.puts++
}

func (c *churn) drop(key string) {
	c.model.remove(key)
	c.o.Remove(key)
	c.dels++
}

func (c *churn) putBad(key string) {
	c.model.putBad(key)
	c.o.Txn(clientv3.OpPut(node.Prefix+key, c.nonsense()))
	c.bad++
}

// change makes one change, or several to the same key without a pause.
func (c *churn) change() {
	kind := pick(c, slices.Sorted(maps.Keys(c.kinds)))
	key := pick(c, c.kinds[kind])
	switch n := c.IntN(100); {
	case n < 55:
		c.write(key, c.document(key))
	case n < 75:
		c.putBad(key)
	case n < 80: // oscillation
		one, other := c.document(key), c.document(key)
		for range 8 {
			c.write(key, one)
			c.write(key, other)
		}
		c.putBad(key)
		c.write(key, one)
	case n < 85: // invalid names
		c.putBad(strings.SplitAfter(key, "/")[0] + pick(c, []string{"-x", "ä", strings.Repeat("x", 200)}))
	case c.few(kind):
		c.write(key, c.document(key))
	default:
		c.drop(key)
	}
}

// few reports whether a third of the documents of a kind are deleted. More than half would be held back.
func (c *churn) few(kind string) bool {
	there := 0
	for _, key := range c.kinds[kind] {
		if c.model.good[key] != nil {
			there++
		}
	}
	return kind != "defaults" && there <= len(c.kinds[kind])*2/3
}

func pick[T any](c *churn, from []T) T { return from[c.IntN(len(from))] }

// document returns a valid document.
func (c *churn) document(key string) fleettest.Tree {
	doc := fleettest.Tree{}
	maybe := func(name string, values ...any) {
		if c.IntN(2) == 0 {
			doc[name] = pick(c, values)
		}
	}
	switch kind, _, _ := strings.Cut(key, "/"); kind {
	case "defaults":
		return c.defaults()
	case "models":
		maybe("pool", "p-00", "p-01", "nowhere")
		maybe("aliases", []string{"default"}, []string{"nick", "nack"}, []string{"m-03"}, []string{"nack"}, []string{})
		maybe("retry", fleettest.Tree{"errors": 1, "hops": 2}, fleettest.Tree{"out_of_capacity": 0})
		maybe("timeouts", fleettest.Tree{"idle": "7s"}, fleettest.Tree{"total": "2m0s", "connect": "30ms"})
		maybe("routing", fleettest.Tree{"steps": []any{fleettest.Tree{"colos": []string{"fra"}, "pick": "random"}, fleettest.Tree{"pick": "order", "attempts": 2}}}, fleettest.Tree{"algorithm": "random"})
		maybe("max_body", "1MiB", "20MiB", "77KiB")
		if c.IntN(8) == 0 { // of a future version
			doc["version"], doc["future"] = 99, fleettest.Tree{"colour": "blue"}
		}
	case "pools":
		maybe("permits", fleettest.Tree{"per_endpoint": 1 + c.IntN(engineSlots)}, fleettest.Tree{"max_share": 0.5})
		maybe("queue", fleettest.Tree{"limit": c.IntN(50)}, fleettest.Tree{"max_wait": "300ms", "discipline": "fifo"}, fleettest.Tree{"per_account": 5, "bytes": "1MiB"})
		maybe("balance", fleettest.Tree{"policy": "round_robin"})
	case "colos":
		maybe("region", "region-1", "region-9")
		maybe("state", "active", "draining", "disabled")
	case "accounts":
		maybe("weight", 1+c.IntN(9))
		maybe("priority", "interactive", "batch")
		maybe("limits", fleettest.Tree{"concurrent": c.IntN(9)})
		maybe("models", []string{}, []string{"m-01"})
	case "endpoints":
		c.endpoint(key, maybe, doc)
	}
	return doc
}

// endpoint describes the engine whose documents change, or an address without a listener. Only the engine may join the pool of
// the models that stay.
func (c *churn) endpoint(key string, maybe func(string, ...any), doc fleettest.Tree) {
	url := c.o.F.Engines[1].URL
	if strings.HasPrefix(key, "endpoints/fra/") {
		url = c.o.F.Engines[3].URL
	}
	doc["url"], doc["pool"] = url+pick(c, []string{"", "/", "/v1", "/v1/"}), pick(c, []string{"demo", "p-00", "p-01"})
	if c.IntN(2) == 0 {
		doc["url"], doc["pool"] = fmt.Sprintf("http://127.0.0.1:%d", 1+c.IntN(9)), pick(c, []string{"p-01", "p-02"})
	}
	doc["concurrency"] = c.IntN(engineSlots + 1)
	if doc["pool"] != "demo" && c.IntN(4) == 0 && !strings.HasPrefix(doc["url"].(string), url) {
		delete(doc, "concurrency") // from the layers below
	}
	maybe("engine", "vllm", "sglang")
	maybe("weight", 1+c.IntN(5))
	maybe("health", fleettest.Tree{"interval": "1s"}, fleettest.Tree{"timeout": "3s"})
	maybe("usage", "leave")
}

func (c *churn) defaults() fleettest.Tree {
	doc := fleettest.Tree{}
	maybe := func(name string, value fleettest.Tree) {
		if c.IntN(2) == 0 {
			doc[name] = value
		}
	}
	maybe("model", fleettest.Tree{"retry": fleettest.Tree{"errors": 2 + c.IntN(3)}, "timeouts": fleettest.Tree{"idle": pick(c, []string{"30s", "40s"})}})
	maybe("pool", fleettest.Tree{"queue": fleettest.Tree{"limit": 100 + c.IntN(100)}, "permits": fleettest.Tree{"per_endpoint": 1 + c.IntN(engineSlots)}})
	maybe("endpoint", fleettest.Tree{"engine": pick(c, []string{"openai", "vllm"}), "weight": 1 + c.IntN(9), "health": fleettest.Tree{"interval": "4s"}})
	maybe("engines", fleettest.Tree{"openai": fleettest.Tree{"concurrency": 1 + c.IntN(9), "weight": 1 + c.IntN(9)}, "vllm": fleettest.Tree{"health": fleettest.Tree{"interval": "3s"}}})
	return doc
}

// text encodes a document as JSON, or as YAML with the fields in any order.
func (c *churn) text(doc fleettest.Tree) string {
	of := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // maps, lists, strings and numbers
		}
		return string(b)
	}
	if c.IntN(2) == 0 || len(doc) == 0 {
		return of(doc)
	}
	var lines strings.Builder
	for name, value := range doc {
		fmt.Fprintf(&lines, "%s: %s # a comment\n", name, of(value))
	}
	return lines.String()
}

// nonsense returns a value that no kind of document accepts.
func (c *churn) nonsense() string {
	return pick(c, []string{
		"", "null", "hello", "[1, 2]", "{", "a: [b", "\x00", "\xff\xfe", `{"colour": "red"}`, "key: value", "version: 0", "version: one",
		`{"pool": 7, "region": 7, "weight": "x", "model": 7}`, `{"version": 1, "version": 1}`, "a: &x 1\nb: *x", "<<: {a: 1}", "---\n{}\n---\n{}",
		"# " + strings.Repeat("x", 70<<10), `{"a":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "}",
		`{"` + strings.Repeat("x", 2000) + `": 1}`, "no: yes", "pool: null\nregion: null\nweight: null\nmodel: null",
	})
}

// agree waits until every node has what the model expects, and returns how long that took.
func (c *churn) agree() time.Duration {
	f := c.o.F
	f.T.Helper()
	began := time.Now()
	colos := map[string]string{f.Entry.Node: ""}
	for _, n := range f.Colos {
		colos[n.Node] = n.Colo
	}
	for name, colo := range colos {
		want := c.model.expect(colo)
		var differ []string
		defer func() {
			for _, d := range differ {
				f.T.Errorf("%s: %s", name, d)
			}
		}()
		testkit.Within(f.T, time.Second, name+" to have what is in etcd", func() bool {
			differ = want.differences(f.FleetPage(f.Admins()[name]))
			if len(differ) == 0 && colo != "" && !maps.Equal(want.places(), placesOf(colo, f.Pools(colo))) {
				differ = []string{fmt.Sprintf("the pools have %v, want %v", placesOf(colo, f.Pools(colo)), want.places())}
			}
			return len(differ) == 0
		})
	}
	return time.Since(began)
}

// After many random changes, good and bad, to documents of every kind, written to etcd while requests run, every node has
// what the naive model expects, no request to an unchanged model has failed, and an engine whose documents kept changing
// was never over its limit.
func TestRandomDocumentChanges(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engines: 2, Engine: simengine.Config{Slots: 8, TTFT: 15 * time.Millisecond, ITL: time.Millisecond}}, "")
	f.WatchShared(100)
	c := newChurn(f, testkit.Seed(t))
	c.begin()
	c.agree()
	steady := f.Drive(3, func(n int) string {
		if n%8 == 0 { // lasts over several changes
			return fleettest.ChatBody(400, true)
		}
		return fleettest.AlternatingBodies([]string{"demo-chat", "default"}[n/2%2])(n)
	})
	restless := f.Drive(8, func(n int) string { // their pools may have no endpoint, or one without a listener
		return fmt.Sprintf(`{"model":"restless-%d","max_tokens":5,"messages":[]}`, n%2)
	}, 429, 502, 503)
	for _, e := range f.Engines {
		e.Simulated.ResetPeak()
	}
	const round = 50
	var longest time.Duration
	for n := range testkit.AtScale(150, 10_000) {
		c.change()
		if n%round == round-1 {
			longest = max(longest, c.agree())
		}
	}
	t.Logf("%d puts, %d of bad documents, and %d deletions; every node agreed after at most %v", c.puts, c.bad, c.dels, longest)
	steady.Check()
	servedRestless, failures := restless.Stop()
	t.Logf("%d requests to models whose endpoints changed were served", servedRestless)
	for bad, times := range failures {
		t.Errorf("%d times: %s", times, bad)
	}
	for _, n := range []int{1, 3} {
		if peak := f.Engines[n].Simulated.Stats().Peak; peak > engineSlots {
			t.Errorf("engine %d had %d in flight at once; no document lets it have more than %d", n, peak, engineSlots)
		}
	}
}
