package document_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"colonnade/fleet/document"
)

const endpointHead = "url: http://h:1\npool: p\n"

func TestCheckAccepts(t *testing.T) {
	f := func(key, value string) {
		t.Helper()
		if err := document.Check(key, []byte(value)); err != nil {
			t.Errorf("Check(%q, %q) = %v", key, value, err)
		}
		if err := checkBySchema(t, key, []byte(value)); err != nil {
			t.Errorf("the schema rejects %q, %q: %v", key, value, err)
		}
	}
	f("models/llama-3.1-8b-instruct", `
aliases: [default]
type: chat
pool: llama-3.1-8b
upstream_name: meta-llama/Llama-3.1-8B-Instruct
routing:
  algorithm: steps
  steps:
    - {colos: [ams, fra], pick: order, attempts: 2}
    - {regions: [weur, eeur], pick: random, attempts: 2}
    - {pick: random, attempts: 1}
    - {}
retry: {errors: 3, out_of_capacity: 4, hops: 4}
timeouts: {connect: 1s, first_byte: 60s, idle: 60s, total: 10m, websocket: 1h}
max_body: 16MiB
cost: {unit: neurons, input: 0.4, cached_input: 0.1, output: 1.2, per: 1000}
forward_headers: [X-Trace-Id]
`)
	f("models/meta-llama/Llama:free@1+x", "{}")
	f("pools/llama-3.1-8b", `
permits: {per_endpoint: 16, max_share: 1.0}
queue: {discipline: fair, cost: tokens, limit: 256, per_account: 64, bytes: 64MiB, max_wait: 10s, spill_wait: 250ms, promote_after: 5s}
balance: {policy: least_loaded} # a comment
`)
	f("pools/p", "queue: {limit: 0, per_account: 0, bytes: 0, max_wait: 0, spill_wait: 0s}")
	f("pools/p", "permits: {max_share: 1}")
	f("colos/ams", "region: weur\nstate: draining\n")
	f("colos/ams", "labels: {gpu: h100, example.com/tier: 'gold plus'}\nposition: {lat: 52.37, lon: 4}")
	f("colos/pole", "position: {lat: -90, lon: 180.0}")
	f("models/m", "retry: {forward_below: 256KiB}")
	f("defaults", "model: {retry: {forward_below: 0}}")
	f("accounts/acme", `
weight: 4
priority: interactive
limits: {concurrent: 7}
models: []
admin: true
`)
	f("keys/laptop", `
account: acme
sha256: "`+strings.Repeat("0f", 32)+`"
created: 2026-01-31T12:00:00Z
expires: 2027-01-31T12:00:00+01:00
`)
	f("keys/gpus", "role: worker\nsha256: '"+strings.Repeat("0f", 32)+"'\nexpires: 2027-01-31T12:00:00Z")
	f("keys/a/b:c@1", `{"account": "acme/eu", "sha256": "`+strings.Repeat("AB", 32)+`"}`)
	f("endpoints/ams/gpu-7", `
url: http://10.0.0.7:8000
engine: vllm
pool: llama-3.1-8b
concurrency: 0
weight: 1
names: {llama: "what this engine calls it"}
paths: {/v1/rerank: /rerank}
credential: env:COLONNADE_CREDENTIAL_VLLM
usage: leave
external: true
health: {path: /health, interval: 5s, timeout: 2s}
`)
	f("servers/ams/ams-1", `{"address":"10.0.0.1:8443","admin":"127.0.0.1:9080","boot":"b1",
		"state":"active","protocol":{"min":1,"max":1},"version":"0.1.0"}`)
	f("servers/ams/ams-2", `{"address":"10.0.0.1:8443","boot":"b1","gossip":"10.0.0.1:7946","pools":{"llama-3.1-8b":64,"empty":0},"protocol":{"min":1,"max":3}}`)
	f("servers/ams/ams-3", `{"address":"10.0.0.1:8443","boot":"b1","pools":{}}`)
	f("entries/e2", "{address: h:1, position: {lat: 0, lon: -180}, protocol: {min: 1, max: 4}}")
	f("entries/e1", "address: '[2001:db8::1]:8080'\nregion: weur\nversion: 0.1.0\n")
	f("defaults", `
model: {retry: {errors: 1}, routing: {steps: [{pick: random}]}}
pool: {queue: {limit: 10}}
endpoint: {usage: leave, engine: vllm, health: {timeout: 3s}}
engines: {vllm: {concurrency: 32}, sglang: {health: {timeout: 30s}}}
origins: ["https://app.example.com", "http://localhost:3000"]
`)
	f("defaults", "origins: ['HTTPS://App.example.com:443', 'app://obsidian.md', 'chrome-extension://abcdefgh', 'http://[::1]:3000', '*']")
	f("pools/p", "version: 1\nqueue: {limit: 1}")
	f("pools/p", "version: 6\nnew: 1")
	f("pools/p", "version: 99\nqueue: {limit: 1, shape: round}\nnew: [1, 2]")
	f("servers/ams/a", "{address: 'h:1', boot: b, protocol: {min: 1, max: 7, best: 2}, new: field}")
	f("pools/p", "{}")
	f("pools/p", "queue: {}")
	f("pools/p", "# all defaults\n{}")
	f("pools/p", "--- {}")
	f("pools/p", "---\nqueue: {limit: 1}\n")
	f("pools/p", `{"queue": {"limit": 1}, "balance": {"policy": "round_robin"}}`)
	f("models/m", "routing: {algorithm: latency}")
	f("models/m", `
version: 3
routing:
  steps:
    - {within: 20ms, pick: latency}
    - {regions: [weur], labels: {gpu: h100}, within: 1ms, pick: least_loaded, attempts: 2}
    - {colos: [ams, fra], pick: weighted, weights: {ams: 3, fra: 0.5, iad: 0}}
    - {labels: {}, within: 10s}
`)
	f("defaults", "model: {routing: {algorithm: flow, steps: [{pick: weighted, weights: {ams: 1000000}}]}}")
	f("flows/meta-llama/Llama", `{"regions": {"weur": {"ams": 3, "fra": 1.5}, "*": {"iad": 1, "ams": 0}}}`)
}

func TestCheckRejects(t *testing.T) {
	beyondSchema := func(key, value, want string) { // what a JSON Schema cannot say
		t.Helper()
		err := document.Check(key, []byte(value))
		var invalid *document.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("Check(%q, %q) = %v, want an InvalidError with %q", key, value, err, want)
			return
		}
		if !strings.HasPrefix(err.Error(), key+": "+want) {
			t.Errorf("Check(%q, %q)\n got %v\nwant %s: %s…", key, value, err, key, want)
		}
	}
	f := func(key, value, want string) {
		t.Helper()
		beyondSchema(key, value, want)
		if checkBySchema(t, key, []byte(value)) == nil {
			t.Errorf("the schema accepts %q, %q", key, value)
		}
	}
	// The key.
	f("plans/m", "{}", "unknown kind of document; the key must be one of defaults, models/<model>, pools/<pool>, ")
	f("owners/ams/ams-1/x", "{}", "not a document, but the record of a colo server's process")
	f("owners/ams/ams-1/x/held", "{}", "not a document, but the record of a colo server's process")
	f("owners", "{}", "not a document, but the record of a colo server's process")
	f("owner/ams/e", "{}", "unknown kind")
	f("models", "{}", `"": in the key: a name must begin with`)
	f("models/", "{}", `"": in the key`)
	f("models/-x", "{}", `"-x": in the key`)
	f("models/"+strings.Repeat("x", 129), "{}", `"xxx`)
	f("models/a b", "{}", `"a b"`)
	f("endpoints/ams", "{}", "the key must be endpoints/<colo>/<endpoint>")
	f("endpoints//x", "{}", `"": in the key`)
	f("colos/a/b", "{}", `"a/b": the name of a colo or of a node must not contain a slash`)
	f("servers/ams/../x", "{}", `"../x": the name of a colo`)
	f("defaults/x", "{}", "unknown kind")

	beyondSchema("models/m", "cost: {input: 0.4, cached_input: 0.5, output: 1, per: 1000}",
		"cost.cached_input: 0.5: must be at most cost.input, since a prompt token from the cache costs no more than another")
	f("models/m", "cost: {input: 0.4, cached_input: -1, output: 1, per: 1000}", "cost.cached_input: -1: must be at least 0")

	// The shape.
	f("pools/p", "", "the document is empty; write {}")
	f("pools/p", "# nothing", "the document is empty")
	f("pools/p", "null", "the document ")
	f("pools/p", "[1]", "the document must be a map of fields")
	f("pools/p", `[1]`, "the document must be a map of fields")
	f("pools/p", "text", "the document must be a map of fields")
	f("pools/p", "a: b: c", "the document is not valid YAML")
	f("pools/p", "a: 1\nb: c: d", "the document is not valid YAML (line 2)")
	f("pools/p", "queue: {limit: 1}\n---\nqueue: {}", "more than one document")
	f("pools/p", "queue: {limit: 1, limit: 2}", "queue.limit: the field is given twice")
	f("pools/p", "queue: {limit: 1}\nqueue: {limit: 2}", "queue: the field is given twice")
	f("pools/p", `{"queue":{"limit":1,"lim\u0069t":2}}`, "queue.limit: the field is given twice")
	f("pools/p", "queue: {limit: null}", "queue.limit: null: null is not accepted; leave the field out")
	f("pools/p", "queue: {limit: ~}", "queue.limit: null")
	f("pools/p", "queue:", "queue: null")
	f("pools/p", `{"queue":null}`, "queue: null")
	f("models/m", "aliases: [a, null]", "aliases[1]: null")
	f("pools/p", "Queue: {limit: 1}", "Queue: unknown field; accepted here: permits, queue, balance")
	f("pools/p", "queue: {lenght: 3}", "queue.lenght: unknown field; accepted here: discipline, cost, limit")
	f("accounts/a", "limits: {concurency: 3}", "limits.concurency: unknown field; accepted here: concurrent")
	f("accounts/a", "limits: {concurency: 3, tokens_per_minute: 4}", "limits.")
	f("models/m", "routing: {steps: [{pick: order}, {without: 20ms}]}", "routing.steps[1].without: unknown field; accepted here: colos, regions, labels, within, pick, weights, attempts")
	f("colos/ams", "servers: [a]", "servers: unknown field")
	f("pools/p", "version: 0", "version: 0: must be a whole number")
	f("pools/p", "version: '2'\nnew: 1", `version: "2": must be a whole number`)
	f("pools/p", "version: 1\nnew: 1", "new: unknown field")
	f("pools/p", "version: 5\nnew: 1", "new: unknown field")
	beyondSchema("pools/p", "version: 99\nqueue: {limit: -1}", "queue.limit: -1: must be at least 0")
	f("pools/p", "queue: 3", "queue: 3: must be a map")
	f("pools/p", "queue: [limit]", "queue: a list: must be a map, not a list")
	f("models/m", "aliases: a", `aliases: "a": must be a list`)
	f("models/m", "aliases: {a: b}", "aliases: a map: must be a list, not a map")
	f("pools/p", "a: \"\\u0000\"", "a: a text must not contain line breaks or other control characters")
	f("pools/p", "a: |\n  x\n  y\n", "a: a text must not contain line breaks")
	f("pools/p", "a: \xff", "the document is not valid UTF-8")

	// Unquoted words that YAML does not read as text, as values and as keys.
	f("models/m", "pool: no", "pool: false: must be text; quote it")
	f("models/m", "pool: off", "pool: false: must be text; quote it")
	f("models/m", "pool: 1e3", "pool: 1000: must be text; quote it")
	f("models/m", "pool: 3.1", "pool: 3.1: must be text; quote it")
	f("models/m", "aliases: [ok, yes]", "aliases[1]: true: must be text; quote it")
	f("models/m", "aliases: [ok, 7]", "aliases[1]: 7: must be text")
	f("endpoints/ams/e", endpointHead+"names: {no: x}", "names: false: YAML reads this field's name as true or false, not as text; quote it")
	f("endpoints/ams/e", endpointHead+"names: {1e3: x}", "names: 1000: YAML reads this field's name as a number, not as text; quote it")
	f("endpoints/ams/e", endpointHead+"names: {~: x}", "names: null: ")
	f("endpoints/ams/e", endpointHead+"names: {m: 8}", "names.m: 8: must be text")
	f("colos/ams", "? [a, b]\n: c", "a field's name must be text")
	f("pools/p", "queue: {limit: '5'}", `queue.limit: "5": must be a whole number, without quotes`)
	beyondSchema("pools/p", "queue: {limit: 1e3}", "queue.limit: 1000: must be a whole number")
	f("pools/p", "queue: {limit: 1.5}", "queue.limit: 1.5: must be a whole number")
	f("pools/p", "queue: {limit: 99999999999999999999}", "queue.limit: 1e+20: must be a whole number")
	f("accounts/a", "admin: 'yes'", `admin: "yes": must be true or false, unquoted`)
	f("pools/p", "permits: {max_share: half}", `permits.max_share: "half": must be a number`)

	// Bounds and enumerations.
	f("pools/x", "queue: {limit: -3}", "queue.limit: -3: must be at least 0")
	f("pools/x", "queue: {limit: 100001}", "queue.limit: 100001: must be at most 100000")
	beyondSchema("pools/x", "queue: {max_wait: 61m}", `queue.max_wait: "61m": must be at most 1h`)
	beyondSchema("pools/x", "queue: {max_wait: -1s}", `queue.max_wait: "-1s": must be a duration with its unit, at least 0`)
	f("pools/x", "queue: {max_wait: 10}", `queue.max_wait: 10: must be a duration with its unit`)
	f("pools/x", "queue: {max_wait: .inf}", `queue.max_wait: +Inf: must be a duration with its unit`)
	f("pools/x", "queue: {bytes: 64MB}", `queue.bytes: "64MB": must be a size`)
	f("pools/x", "queue: {bytes: -1}", `queue.bytes: -1: must be a size`)
	beyondSchema("pools/x", "queue: {bytes: 65GiB}", `queue.bytes: "65GiB": must be at most 64GiB`)
	beyondSchema("pools/x", "queue: {bytes: 9223372036854775807GiB}", `queue.bytes: "9223372036854775807GiB": must be a size`)
	f("pools/x", "queue: {cost: neurons}", `queue.cost: "neurons": must be one of requests, tokens`)
	f("pools/x", "queue: {discipline: lifo}", `queue.discipline: "lifo": must be one of fifo, fair`)
	f("pools/x", "balance: {policy: fastest}", `balance.policy: "fastest": must be one of least_loaded, round_robin, weighted_round_robin`)
	beyondSchema("pools/x", "balance: {policy: score, score: {prefix: 0, load: 0, latency: 0.0}}",
		"balance.score: prefix 0, load 0, latency 0: at least one weight must be above 0")
	beyondSchema("defaults", "pool: {balance: {score: {prefix: 0, load: 0, latency: 0}}}",
		"pool.balance.score: prefix 0, load 0, latency 0: at least one weight must be above 0")
	f("pools/x", "permits: {max_share: 0}", "permits.max_share: 0: must be at least 0.001")
	f("pools/x", "permits: {max_share: .nan}", "permits.max_share: NaN: must be at least 0.001")
	f("pools/x", "permits: {max_share: .inf}", "permits.max_share: +Inf: must be at most 1")
	f("pools/x", "permits: {per_endpoint: 0}", "permits.per_endpoint: 0: must be at least 1")
	f("models/m", "routing: {algorithm: nearest}", `routing.algorithm: "nearest": must be one of steps, random, latency, flow`)
	f("models/m", "routing: {steps: [{}, {pick: nearest}]}", `routing.steps[1].pick: "nearest": must be one of order, random, latency, least_loaded, weighted`)
	beyondSchema("models/m", "routing: {steps: [{within: 0s}]}", `routing.steps[0].within: "0s": must be at least 1ms`)
	beyondSchema("models/m", "routing: {steps: [{}, {within: 0}]}", "routing.steps[1].within: 0: must be at least 1ms")
	beyondSchema("models/m", "routing: {steps: [{within: 11s}]}", `routing.steps[0].within: "11s": must be at most 10s`)
	f("models/m", "routing: {steps: [{within: 20}]}", "routing.steps[0].within: 20: must be a duration with its unit")
	f("models/m", "routing: {steps: [{labels: {gpu: 100}}]}", "routing.steps[0].labels.gpu: 100: must be text")
	f("models/m", "routing: {steps: [{labels: {gpu: ''}}]}", `routing.steps[0].labels.gpu: "": must not be empty`)
	f("models/m", "routing: {steps: [{labels: [h100]}]}", "routing.steps[0].labels: a list: must be a map")
	f("models/m", "routing: {steps: [{labels: {g u: x}}]}", `routing.steps[0].labels."g u": a name must begin with`)
	f("models/m", "routing: {steps: [{pick: weighted, weights: {ams: -1}}]}", "routing.steps[0].weights.ams: -1: must be at least 0")
	f("models/m", "routing: {steps: [{pick: weighted, weights: {ams: 1000001}}]}", "routing.steps[0].weights.ams: 1000001: must be at most 1000000")
	f("models/m", "routing: {steps: [{pick: weighted, weights: {ams: .nan}}]}", "routing.steps[0].weights.ams: NaN: must be at least 0")
	f("models/m", "routing: {steps: [{pick: weighted, weights: {a b: 1}}]}", `routing.steps[0].weights."a b": a name must begin with`)
	beyondSchema("models/m", "routing: {steps: [{}, {pick: weighted, weights: {ams: 0, fra: 0.0}}]}", "routing.steps[1].weights: a map: at least one weight must be above 0")
	beyondSchema("models/m", "routing: {steps: [{pick: weighted, weights: {}}]}", "routing.steps[0].weights: a map: at least one weight must be above 0")
	beyondSchema("models/m", "routing: {steps: [{pick: weighted}]}", `routing.steps[0].weights: the field is required beside "pick: weighted"`)
	beyondSchema("models/m", "routing: {steps: [{weights: {ams: 1}}]}", `routing.steps[0].weights: a map: accepted only beside "pick: weighted"`)
	beyondSchema("models/m", "routing: {steps: [{pick: random, weights: {ams: 1}}]}", `routing.steps[0].weights: a map: accepted only beside "pick: weighted"`)
	beyondSchema("defaults", "model: {routing: {steps: [{pick: weighted}]}}", `model.routing.steps[0].weights: the field is required`)
	beyondSchema("models/m", "retry: {forward_below: 2GiB}", `retry.forward_below: "2GiB": must be at most 1GiB`)
	f("models/m", "retry: {forward_below: -1}", "retry.forward_below: -1: must be a size")
	f("flows/m", "{}", "regions: the field is required")
	beyondSchema("flows/m", "regions: {}", `regions: a map: must have at least one region of entries, or "*" for every region`)
	f("flows/m", "regions: [weur]", "regions: a list: must be a map")
	f("flows/m", "regions: {weur: 1}", "regions.weur: 1: must be a map")
	f("flows/m", "regions: {w e: {ams: 1}}", `regions."w e": must be the name of a region, or "*" for every other region`)
	f("flows/m", "regions: {weur: {'*': 1}}", `regions.weur."*": a name must begin with a letter or digit`)
	f("flows/m", "regions: {'*': {ams: -1}}", `regions."*".ams: -1: must be at least 0`)
	f("flows/m", "regions: {weur: {ams: often}}", `regions.weur.ams: "often": must be a number`)
	beyondSchema("flows/m", "regions: {enam: {iad: 1}, weur: {ams: 0}}", "regions.weur: a map: at least one weight must be above 0")
	beyondSchema("flows/m", "regions: {weur: {}}", "regions.weur: a map: at least one weight must be above 0")
	f("flows/m", "regions: {weur: {ams: 1}}\nweights: {}", "weights: unknown field; accepted here: regions")
	f("flows/", "{}", `"": in the key`)
	f("colos/ams", "position: {lat: 90.1, lon: 0}", "position.lat: 90.1: must be at most 90")
	f("colos/ams", "position: {lat: -91, lon: 0}", "position.lat: -91: must be at least -90")
	f("colos/ams", "position: {lat: 0, lon: 180.5}", "position.lon: 180.5: must be at most 180")
	f("colos/ams", "position: {lat: 0, lon: -200}", "position.lon: -200: must be at least -180")
	f("colos/ams", "position: {lat: .nan, lon: 0}", "position.lat: NaN: must be at least -90")
	f("colos/ams", "position: {lat: 52.3}", "position.lon: the field is required")
	f("colos/ams", "position: {lon: 4.9}", "position.lat: the field is required")
	f("colos/ams", "position: [52.3, 4.9]", "position: a list: must be a map")
	f("colos/ams", "position: '52.3,4.9'", `position: "52.3,4.9": must be a map`)
	f("colos/ams", "labels: {gpu: [h100]}", "labels.gpu: a list: must be text")
	f("entries/e", "{address: 'h:1', position: {lat: 91, lon: 0}}", "position.lat: 91: must be at most 90")
	f("models/m", "routing: {steps: [{attempts: 0}]}", "routing.steps[0].attempts: 0: must be at least 1")
	beyondSchema("models/m", "timeouts: {idle: 0}", "timeouts.idle: 0: must be at least 1ms")
	f("models/m", "type: text", `type: "text": must be one of chat, completion`)
	f("models/m", "aliases: [a b]", `aliases[0]: "a b": a name must begin with a letter or digit`)
	f("models/m", "upstream_name: ''", `upstream_name: "": must not be empty`)
	beyondSchema("models/m", "forward_headers: [authorization]", `forward_headers[0]: "authorization": must be the name of a header that may be forwarded`)
	f("models/m", "forward_headers: [x_trace]", `forward_headers[0]: "x_trace"`)
	beyondSchema("models/m", "forward_headers: [X-Colonnade-Hop]", `forward_headers[0]`)
	f("models/m", "forward_headers: ['a: b']", `forward_headers[0]`)
	f("colos/ams", "state: off", "state: false: must be text; quote it")
	f("colos/ams", "state: gone", `state: "gone": must be one of active, draining, disabled`)
	f("accounts/a", "weight: 0", "weight: 0: must be at least 1")
	f("accounts/a", "priority: high", `priority: "high": must be one of interactive, standard, batch`)
	for _, keys := range []string{"[]", "x", "[{id: k, sha256: '" + strings.Repeat("00", 32) + "'}]"} {
		f("accounts/acme", "weight: 4\nkeys: "+keys,
			"keys: API keys are documents of their own; take the field out, and make one with: colonnade keys create -account acme; "+
				"a key stays valid if a document keys/<id> has account: acme and the sha256, created and expires that stand here")
	}
	f("keys/k", "account: a", "sha256: the field is required")
	beyondSchema("keys/k", "sha256: '"+strings.Repeat("00", 32)+"'", "account: the field is required")
	beyondSchema("keys/k", "{role: worker, account: a, sha256: '"+strings.Repeat("00", 32)+"'}", "account: a key with role: worker belongs to no account")
	beyondSchema("keys/k", "{role: worker, limits: {requests_per_minute: 1}, sha256: '"+strings.Repeat("00", 32)+"'}", "limits: a key with role: worker is for no requests")
	f("keys/k", "{role: admin, sha256: '"+strings.Repeat("00", 32)+"'}", `role: "admin": must be worker in this version`)
	f("keys/k", "{account: a b, sha256: '"+strings.Repeat("00", 32)+"'}", "account: a name must begin with a letter or digit")
	f("keys/k", "{account: a, sha256: 1234}", "sha256: must be")
	f("keys/k", "{account: a, sha256: abcd}", "sha256: must be the SHA-256 of the key as 64 hex digits, quoted; never the key itself")
	f("keys/k", "{account: a, sha256: '"+strings.Repeat("00", 32)+"', expires: tomorrow}", "expires: must be a time such as")
	f("keys/k", "{account: a, id: k, sha256: '"+strings.Repeat("00", 32)+"'}", "id: unknown field; accepted here: account, role, sha256, created, expires")
	f("keys/", "{}", `"": in the key: a name must begin`)
	f("servers/ams/a", "address: h:1", "boot: the field is required")
	f("servers/ams/a", "address: h\nboot: b", `address: "h": must be host:port`)
	f("servers/ams/a", "address: 'h:0'\nboot: b", `address: "h:0": must be host:port`)
	f("servers/ams/a", "address: 'h:1'\nboot: b\nstate: disabled", `state: "disabled": must be one of active, draining`)
	f("servers/ams/a", "address: 'h:1'\nboot: b\nnew: 1", "new: unknown field")
	f("servers/ams/a", "address: 'h:1'\nboot: b\npools: [p]", "pools: a list: must be a map")
	f("servers/ams/a", "address: 'h:1'\nboot: b\npools: {p: -1}", "pools.p: -1: must be at least 0")
	f("servers/ams/a", "address: 'h:1'\nboot: b\npools: {p: 10000001}", "pools.p: 10000001: must be at most 10000000")
	f("servers/ams/a", "address: 'h:1'\nboot: b\npools: {p: many}", `pools.p: "many": must be a whole number`)
	f("servers/ams/a", "address: 'h:1'\nboot: b\npools: {a b: 1}", `pools."a b": a name must begin with a letter or digit`)
	f("servers/ams/a", "address: 'h:1'\nboot: b\npools: {"+manyFields(513)+"}", "pools: 513 elements; at most 512 are accepted")
	f("servers/ams/a", "address: 'h:1'\nboot: b\ngossip: h", `gossip: "h": must be host:port`)
	f("servers/ams/a", "address: 'h:1'\nboot: b\ngossip: ''", `gossip: "": must be host:port`)
	f("endpoints/ams/e", "pool: p", "url: the field is required")
	f("endpoints/ams/e", "url: http://h", "pool: the field is required")
	f("endpoints/ams/e", endpointHead+"engine: tensorrt", `engine: "tensorrt": must be one of vllm, sglang`)
	f("endpoints/ams/e", endpointHead+"concurrency: -1", "concurrency: -1: must be at least 0")
	f("endpoints/ams/e", endpointHead+"paths: {v1/rerank: /x}", `paths."v1/rerank": must be a path`)
	beyondSchema("endpoints/ams/e", endpointHead+"paths: {/v1/rerank: /a/../b}", `paths."/v1/rerank": "/a/../b": must be a path`)
	beyondSchema("endpoints/ams/e", endpointHead+"health: {timeout: 1ms}", `health.timeout: "1ms": must be at least 10ms`)
	f("endpoints/ams/e", endpointHead+"credential: token", "credential: must be env:COLONNADE_CREDENTIAL_NAME, or file:PATH")
	f("endpoints/ams/e", endpointHead+"credential: env:VLLM_KEY", "credential: must be env:COLONNADE_CREDENTIAL_NAME")
	f("endpoints/ams/e", endpointHead+"credential: env:COLONNADE_CREDENTIAL_", "credential: must be env:COLONNADE_CREDENTIAL_NAME")
	f("endpoints/ams/e", endpointHead+"credential: 'file:'", "credential: must be env:")
	beyondSchema("endpoints/ams/e", endpointHead+"credential: file:../fleet.key", "credential: must be env:COLONNADE_CREDENTIAL_NAME, or file:PATH with a path below the -credentials-dir of the colo server")
	beyondSchema("endpoints/ams/e", endpointHead+"credential: file:/run/credentials/../fleet.key", "credential: must be env:")
	f("defaults", "endpoint: {credential: env:HOME}", "endpoint.credential: must be env:COLONNADE_CREDENTIAL_NAME")
	f("endpoints/ams/e", endpointHead+"health: {path: health}", `health.path: "health": must be a path`)

	// Fields that this version does not support.
	const unsupported = "not supported by this version; leave the field out"
	f("pools/p", "permits: {shards: 1}", "permits.shards: 1: "+unsupported)

	// Adapters.
	f("models/m", "adapter: ''", `adapter: "": a name must begin with a letter or digit`)
	f("endpoints/ams/e", endpointHead+"adapters: [lora 1]", `adapters[0]: "lora 1": a name must begin with a letter or digit`)
	f("defaults", "model: {adapter: lora-1}", "model.adapter: the field belongs to a document of its own")

	// Limits: none is 0, which would be no limit; and a key's are never shown.
	f("accounts/a", "limits: {requests_per_minute: 0}", "limits.requests_per_minute: 0: must be at least 1")
	f("accounts/a", `{"limits": {"concurrent": 3, "tokens_per_minute": 0}}`, "limits.tokens_per_minute: 0: must be at least 1")
	beyondSchema("accounts/a", "version: 99\nlimits: {tokens_per_minute: {soft: 1}}", "limits.tokens_per_minute: a map: must be a number")
	f("accounts/a", "limits: {budget: {day: 0}}", "limits.budget.day: 0: must be at least 0.000001")
	f("accounts/a", "limits: {budget: {week: 7}}", "limits.budget.week: unknown field; accepted here: unit, day, month")
	f("limits", "concurrent: 3", "concurrent: unknown field; accepted here: requests_per_minute, tokens_per_minute, budget")
	f("limits/acme", "requests_per_minute: 3", "unknown kind of document")

	// The defaults document.
	f("defaults", "models: {}", "models: unknown field; accepted here: model, pool, endpoint, engines, origins")
	f("defaults", "model: {aliases: [a]}", "model.aliases: the field belongs to a document of its own")
	f("defaults", "endpoint: {url: 'http://h'}", "endpoint.url: the field belongs to a document of its own")
	f("defaults", "engines: {vllm: {pool: p}}", "engines.vllm.pool: the field belongs to a document of its own")
	f("defaults", "engines: {vllm: {engine: tgi}}", "engines.vllm.engine: these are the defaults of vllm")
	f("defaults", "engines: {vlm: {}}", "engines.vlm: unknown engine; must be one of vllm")
	f("defaults", "engines: {vllm: {health: {timeout: 1}}}", "engines.vllm.health.timeout: 1: must be a duration")
	f("defaults", "pool: {queue: {limit: -1}}", "pool.queue.limit: -1: must be at least 0")
	f("defaults", "origins: ['app.example.com']", `origins[0]: "app.example.com": must be an origin`)
	for _, origin := range []string{"https://app.example.com/", "https://*.example.com", "https://a@b", "https://", "://a", "null", "**", "*://a", ""} {
		f("defaults", "origins: ['"+origin+"']", `origins[0]`)
	}
	beyondSchema("defaults", "origins: ['https://a:0']", `origins[0]`)
}

// Errors do not show values that may be secrets.
func TestCheckShowsNoSecrets(t *testing.T) {
	const secret = "hunter2"
	f := func(key, value string) {
		t.Helper()
		err := document.Check(key, []byte(value))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("Check(%q, %q) = %v", key, value, err)
		}
	}
	f("endpoints/ams/e", "pool: p\nurl: http://user:hunter2@h:1")
	f("endpoints/ams/e", "pool: p\nurl: http://h:1/?key=hunter2")
	f("endpoints/ams/e", endpointHead+"credential: hunter2")
	f("endpoints/ams/e", endpointHead+"credential: [hunter2]")
	f("endpoints/ams/e", endpointHead+"credential: env:hunter2")
	f("endpoints/ams/e", endpointHead+"credential: file:../hunter2")
	f("endpoints/ams/e", endpointHead+"api_key: hunter2")
	f("accounts/a", "keys: [{id: k, sha256: hunter2}]")
	f("accounts/a", "keys: [{id: k, secret: hunter2}]")
	f("keys/k", "{account: a, sha256: hunter2}")
	f("keys/k", "{account: a, sha256: [hunter2]}")
	f("keys/k", "{account: 'hunter2 x', sha256: '"+strings.Repeat("00", 32)+"'}")
	f("keys/k", "{account: a, sha256: '"+strings.Repeat("00", 32)+"', expires: hunter2}")
	f("keys/k", "{account: a, secret: hunter2}")
	f("keys/k", "{account: a, secret: hunter2, sha256: '"+strings.Repeat("00", 32)+"'}")
	f("accounts/a", "keys: hunter2\n\t: x")
	f("accounts/a", "{a: hunter2\n b: 'hunter2")
}

func TestCheckURL(t *testing.T) {
	f := func(url, want string) {
		t.Helper()
		docs := document.NewSet()
		err := docs.Put("endpoints/ams/e", []byte("pool: p\nurl: '"+url+"'"), 1)
		if want == "" {
			if err == nil {
				t.Errorf("%q is accepted", url)
			}
			return
		}
		if err != nil {
			t.Errorf("%q: %v", url, err)
			return
		}
		if got := docs.Table().Endpoints("ams", "p")[0].URL; got != want {
			t.Errorf("%q becomes %q, want %q", url, got, want)
		}
	}
	f("http://10.0.0.7:8000", "http://10.0.0.7:8000")
	f("http://10.0.0.7:8000/", "http://10.0.0.7:8000")
	f("http://10.0.0.7:8000/v1", "http://10.0.0.7:8000")
	f("http://10.0.0.7:8000/v1/", "http://10.0.0.7:8000")
	f("http://h/v1/v1", "http://h")
	f("HTTP://GPU-1:80/Api/v1", "http://gpu-1/Api")
	f("https://h:443", "https://h")
	f("https://h:80", "https://h:80")
	f("http://[2001:DB8::1]:8000/v1", "http://[2001:db8::1]:8000")
	for _, bad := range []string{
		"h:8000", "10.0.0.7:8000", "//h", "ftp://h", "unix:///run/x", "http://", "http://:80", "http://h:", "http://h:0",
		"http://h:99999", "http://h:080", "http://h?x=1", "http://h?", "http://h#", "http://h/#x", "http://u@h", "http://u:p@h", "http://h/..",
		"http://h/a/../b", "http://h//v1", "http://h/%2e%2e", "http://h/a b", "http://h%20x", "http://a,b", "http:h", " http://h",
	} {
		f(bad, "")
	}
}

// A capture needs an end, at most a day ahead; one whose time is over is valid, and has no effect.
func TestCheckCapture(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		err := document.Check("captures/debug", []byte(value))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
	in := func(d time.Duration) string { return "\nuntil: " + time.Now().Add(d).UTC().Format(time.RFC3339) }
	const head = "account: acme\nsink: file:/var/lib/colonnade/acme.jsonl"
	f(head+in(time.Hour), "")
	f(head+in(24*time.Hour), "")
	f(head+in(-time.Hour), "")
	f(head, "until: the field is required")
	f(head+in(25*time.Hour), "ahead, and a capture may last 24h0m0s at most")
	f(head+"\nuntil: tomorrow", "must be a time")
	f("account: acme"+in(time.Hour), "sink: the field is required")
	f("sink: file:/x"+in(time.Hour), "account: the field is required")
	for _, sink := range []string{"file:x", "file:/../x", "file:/", "s3://bucket", "https://user:secret@h/x", "https://h/x?key=secret", "http://"} {
		f("account: acme\nsink: "+sink+in(time.Hour), "sink: ")
	}
	f(head+in(time.Hour)+"\nmax_bytes: 32MiB", "max_bytes")
}
