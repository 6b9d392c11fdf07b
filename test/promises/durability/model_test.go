package durability_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/permits"
)

// naive is a model of what nodes should have in force. It is computed anew from all documents each time, as simply as possible,
// and shares no code with package fleet.
type naive struct {
	good map[string]fleettest.Tree // the last good version of each document
	bad  map[string]bool           // whether the newest one is bad
	puts int
	last map[string]int // by endpoint: the put by which it came to its URL
}

func newNaive() *naive {
	return &naive{good: map[string]fleettest.Tree{}, bad: map[string]bool{}, last: map[string]int{}}
}

func (n *naive) put(key string, doc fleettest.Tree) {
	n.puts++
	if n.last[key] == 0 || urlOf(n.good[key]) != urlOf(doc) {
		n.last[key] = n.puts
	}
	n.good[key] = doc
	delete(n.bad, key)
}

func (n *naive) putBad(key string) { n.bad[key] = true }

func (n *naive) remove(key string) {
	delete(n.good, key)
	delete(n.bad, key)
	delete(n.last, key)
}

// urlOf returns the URL of an endpoint in one form, and nothing for another document.
func urlOf(doc fleettest.Tree) string {
	url, _ := doc["url"].(string)
	return strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/v1")
}

// expected is what one node should show: of each document, the fields that the model knows.
type expected struct {
	documents map[string]fleettest.Tree
	rejected  map[string]bool // whether a good version stays in force, by key
	conflicts []string
}

// watched reports whether a node reads a document. colo is empty for an entry.
func watched(key, colo string) bool {
	kind, _, _ := strings.Cut(key, "/")
	switch kind {
	case "defaults", "models", "colos":
		return true
	case "accounts":
		return colo == ""
	case "pools":
		return colo != ""
	case "endpoints":
		return colo != "" && strings.HasPrefix(key, "endpoints/"+colo+"/")
	}
	return false
}

// expect computes what a node should have.
func (n *naive) expect(colo string) expected {
	e := expected{documents: map[string]fleettest.Tree{}, rejected: map[string]bool{}}
	docs := map[string]fleettest.Tree{}
	for key, doc := range n.good {
		if watched(key, colo) {
			docs[key] = doc
		}
	}
	for key := range n.bad {
		if watched(key, colo) {
			e.rejected[key] = n.good[key] != nil
		}
	}
	keys := slices.Collect(maps.Keys(docs))
	slices.SortFunc(keys, func(a, b string) int { return n.last[a] - n.last[b] })
	e.resolve(docs, keys)
	maps.DeleteFunc(e.documents, func(key string, _ fleettest.Tree) bool { return !watched(key, colo) }) // a colo has pools of its models too
	e.aliases(docs)
	slices.Sort(e.conflicts)
	return e
}

// resolve lays every document over its defaults, in the order of keys. Of two endpoints with one URL, the first counts.
func (e *expected) resolve(docs map[string]fleettest.Tree, keys []string) {
	defaults := docs["defaults"]
	pool := func(name string) fleettest.Tree { return poolTree(part(defaults, "pool"), docs["pools/"+name]) }
	urls := map[string]string{}
	for _, key := range keys {
		doc := docs[key]
		kind, name, _ := strings.Cut(key, "/")
		var inPool string
		switch kind {
		case "models":
			e.documents[key] = modelTree(name, defaults, doc)
			inPool = e.documents[key]["pool"].(string)
		case "pools":
			inPool = name
		case "colos":
			e.documents[key] = over(fleettest.Tree{"state": "active"}, doc)
		case "accounts":
			e.documents[key] = over(fleettest.Tree{"weight": 1, "priority": "standard", "limits": fleettest.Tree{"concurrent": 1024}}, doc)
		case "endpoints":
			inPool = doc["pool"].(string)
			out := endpointTree(defaults, pool(inPool), doc)
			url := out["url"].(string)
			if first, taken := urls[url]; taken {
				e.conflict("url", url, first, key)
				continue
			}
			urls[url] = key
			e.documents[key] = out
		}
		if inPool != "" {
			e.documents["pools/"+inPool] = pool(inPool)
		}
	}
}

// aliases finds the aliases that a model does not get: a name beats an alias, and of several models the lexically first has it.
func (e *expected) aliases(docs map[string]fleettest.Tree) {
	owner := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(docs)) {
		for _, alias := range listOf(docs[key]["aliases"]) {
			switch {
			case key == "models/"+alias: // its own name anyway
			case docs["models/"+alias] != nil:
				e.conflict("alias", alias, "models/"+alias, key)
			case owner[alias] != "":
				e.conflict("alias", alias, owner[alias], key)
			default:
				owner[alias] = key
			}
		}
	}
}

func (e *expected) conflict(what, value, winner, loser string) {
	e.conflicts = append(e.conflicts, what+" "+value+": "+winner+" before "+loser)
}

// poolTree resolves a pool. A short max_wait halves the default of promote_after, so that a promotion comes before the timeout.
func poolTree(defaults, doc fleettest.Tree) fleettest.Tree {
	out := over(builtinPool(), defaults, doc)
	queue := part(out, "queue")
	said := over(part(defaults, "queue"), part(doc, "queue"))["promote_after"] != nil
	longest, err := time.ParseDuration(fmt.Sprint(queue["max_wait"]))
	if err == nil && !said && longest < 10*time.Second {
		out["queue"] = over(queue, fleettest.Tree{"promote_after": (longest / 2).String()})
	}
	return out
}

func builtinPool() fleettest.Tree {
	return fleettest.Tree{
		"permits": fleettest.Tree{"max_share": 1},
		"queue": fleettest.Tree{"discipline": "fair", "cost": "tokens", "limit": 256, "per_account": 64, "bytes": "64MiB", "max_wait": "10s",
			"spill_wait": "250ms", "promote_after": "5s"},
		"balance": fleettest.Tree{"policy": "least_loaded"},
	}
}

func builtinModel() fleettest.Tree {
	return fleettest.Tree{
		"type": "generic", "routing": fleettest.Tree{"algorithm": "steps", "steps": []any{fleettest.Tree{"pick": "order"}}}, "max_body": "16MiB",
		"retry":    fleettest.Tree{"errors": 3, "out_of_capacity": 4, "hops": 4},
		"timeouts": fleettest.Tree{"connect": "1s", "first_byte": "1m0s", "idle": "1m0s", "total": "10m0s", "websocket": "1h0m0s"},
	}
}

func builtinEngine(name string) fleettest.Tree {
	return map[string]fleettest.Tree{
		"openai": {"concurrency": 8, "health": fleettest.Tree{"path": "/v1/models", "interval": "5s", "timeout": "5s"}},
		"vllm":   {"concurrency": 16, "health": fleettest.Tree{"path": "/health", "interval": "5s", "timeout": "2s"}},
		"sglang": {"concurrency": 16, "health": fleettest.Tree{"path": "/health", "interval": "10s", "timeout": "20s"}},
	}[name]
}

func modelTree(name string, defaults, doc fleettest.Tree) fleettest.Tree {
	out := over(builtinModel(), fleettest.Tree{"pool": name, "upstream_name": name}, part(defaults, "model"), doc)
	delete(out, "version")
	delete(out, "future")
	return out
}

func endpointTree(defaults, pool, doc fleettest.Tree) fleettest.Tree {
	engine := "openai"
	for _, layer := range []fleettest.Tree{part(defaults, "endpoint"), doc} {
		if e, ok := layer["engine"].(string); ok {
			engine = e
		}
	}
	ofPool := fleettest.Tree{}
	if n, ok := part(pool, "permits")["per_endpoint"]; ok {
		ofPool["concurrency"] = n
	}
	out := over(fleettest.Tree{"engine": engine, "weight": 1, "usage": "ask"}, builtinEngine(engine), part(defaults, "endpoint"),
		part(part(defaults, "engines"), engine), ofPool, doc)
	out["url"] = urlOf(out)
	return out
}

// over lays trees over each other, the strongest last.
func over(layers ...fleettest.Tree) fleettest.Tree {
	out := fleettest.Tree{}
	for _, layer := range layers {
		for name, value := range layer {
			below, isTree := out[name].(fleettest.Tree)
			above, both := value.(fleettest.Tree)
			if isTree && both {
				value = over(below, above)
			}
			out[name] = value
		}
	}
	return out
}

func part(t fleettest.Tree, name string) fleettest.Tree {
	p, _ := t[name].(fleettest.Tree)
	return p
}

func listOf(v any) []string {
	l, _ := v.([]string)
	return l
}

// differences compares what a node shows with what is expected.
func (e expected) differences(p fleettest.FleetPage) (found []string) {
	for key, doc := range e.documents {
		if p.Documents[key] == nil {
			found = append(found, key+" is missing")
			continue
		}
		found = append(found, lacks(key, plain(doc), p.Documents[key])...)
	}
	for key := range p.Documents {
		if kind, _, _ := strings.Cut(key, "/"); e.documents[key] == nil && !slices.Contains([]string{"servers", "entries", "deletions"}, kind) {
			found = append(found, key+" is there")
		}
	}
	rejected := map[string]bool{}
	for _, r := range p.Rejected {
		rejected[r.Key] = r.LastGood
	}
	if !maps.Equal(rejected, e.rejected) {
		found = append(found, fmt.Sprintf("rejected: %v, want %v", rejected, e.rejected))
	}
	var conflicts []string
	for _, c := range p.Conflicts {
		conflicts = append(conflicts, c["what"]+" "+c["value"]+": "+c["winner"]+" before "+c["loser"])
	}
	slices.Sort(conflicts)
	if !slices.Equal(conflicts, e.conflicts) {
		found = append(found, fmt.Sprintf("conflicts: %q, want %q", conflicts, e.conflicts))
	}
	if len(p.PendingDeletions) > 0 {
		found = append(found, fmt.Sprintf("held back: %q", p.PendingDeletions))
	}
	slices.Sort(found)
	return found
}

// lacks returns the fields of want that got does not have, or that differ.
func lacks(at string, want, got any) (found []string) {
	w, isTree := want.(fleettest.Tree)
	g, both := got.(fleettest.Tree)
	if !isTree || !both {
		if !reflect.DeepEqual(want, got) {
			found = append(found, fmt.Sprintf("%s is %v, want %v", at, got, want))
		}
		return found
	}
	for name := range w {
		found = append(found, lacks(at+"."+name, w[name], g[name])...)
	}
	return found
}

// plain converts a value into what decoding its JSON gives.
func plain(v any) (out any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err) // maps, lists, strings and numbers
	}
	return out
}

// places returns the expected slots of a colo's endpoints, by pool and endpoint.
func (e expected) places() map[string]float64 {
	out := map[string]float64{}
	for key, doc := range e.documents {
		if id, ok := strings.CutPrefix(key, "endpoints/"); ok {
			out[fmt.Sprint(doc["pool"], " has ", id, " at ", doc["url"])] = plain(doc["concurrency"]).(float64)
		}
	}
	return out
}

// placesOf returns the actual slots of a colo's endpoints, by pool and endpoint.
func placesOf(colo string, pools []permits.Stats) map[string]float64 {
	out := map[string]float64{}
	for _, p := range pools {
		for _, at := range p.Endpoints {
			if at.State != "gone" {
				out[fmt.Sprint(p.Pool, " has ", colo, "/", at.ID, " at ", at.URL)] = float64(at.Concurrency)
			}
		}
	}
	return out
}
