package document_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

func TestAutoRules(t *testing.T) {
	f := func(key, value, want string) {
		t.Helper()
		err := document.Check(key, []byte(value))
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", value, err)
		case want == "" && checkBySchema(t, key, []byte(value)) != nil:
			t.Errorf("%q: not by the schema: %v", value, checkBySchema(t, key, []byte(value)))
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	const e = "endpoints/ams/e"
	f(e, endpointHead+"concurrency: auto", "")
	f(e, endpointHead+"concurrency: auto\nauto: {min: 4, max: 64}", "")
	f(e, endpointHead+"concurrency: auto\nauto: {min: 7, max: 7}", "")
	f(e, endpointHead+"concurrency: fast", `concurrency: "fast": must be a whole number, without quotes, point or exponent; or auto`)
	f(e, endpointHead+"concurrency: -1", "concurrency: -1: must be at least 0")
	f(e, endpointHead+"weight: auto", `weight: "auto": must be a whole number`)
	f(e, endpointHead+"concurrency: auto\nauto: {min: 9, max: 4}", "auto.min: 9: must be at most max, which is 4")
	f(e, endpointHead+"concurrency: auto\nauto: {min: 0, max: 4}", "auto.min: 0: must be at least 1")
	f(e, endpointHead+"concurrency: auto\nauto: {min: 1, max: 10001}", "auto.max: 10001: must be at most 10000")
	f(e, endpointHead+"concurrency: auto\nauto: {max: 4}", "auto.min: the field is required")
	f(e, endpointHead+"concurrency: auto\nauto: {min: 4}", "auto.max: the field is required")
	f(e, endpointHead+"concurrency: auto\nauto: {}", "auto.min: the field is required")
	f(e, endpointHead+"concurrency: auto\nauto: auto", "auto: \"auto\": must be a map")
	f(e, endpointHead+"concurrency: auto\nauto: {min: auto, max: 4}", "auto.min: \"auto\": must be a whole number")
	f(e, endpointHead+"concurrency: 16\nauto: {min: 4, max: 64}", `auto: accepted only beside "concurrency: auto"`)
	f(e, endpointHead+"auto: {min: 4, max: 64}", `auto: accepted only beside "concurrency: auto"`)
	f("defaults", "endpoint: {auto: {min: 4, max: 64}}\nengines: {vllm: {concurrency: auto}, tgi: {concurrency: 3, auto: {min: 1, max: 9}}}", "")
	f("defaults", "endpoint: {auto: {min: 64, max: 4}}", "endpoint.auto.min: 64: must be at most max, which is 4")
	f("defaults", "engines: {vllm: {auto: {max: 4}}}", "engines.vllm.auto.min: the field is required")
	f("pools/p", "permits: {per_endpoint: auto}", `permits.per_endpoint: "auto": must be a whole number`)
}

// The limit of concurrency: auto has the bounds of the strongest layer with bounds, and begins at the concurrency without
// auto.
func TestAutoLayers(t *testing.T) {
	f := func(defaults, pool, own string, concurrency int, want *fleet.Auto) {
		t.Helper()
		docs := documents(t, "defaults", defaults, "pools/p", pool, "endpoints/ams/e", endpointHead+own)
		table := docs.Table()
		got := table.EndpointsOf("ams")[0]
		if got.Concurrency != concurrency || (got.Auto == nil) != (want == nil) || want != nil && *got.Auto != *want {
			t.Errorf("%q, %q, %q: concurrency %d, auto %+v; want %d, %+v", defaults, pool, own, got.Concurrency, got.Auto, concurrency, want)
		}
		roundTrip(t, table)
	}
	const auto = "concurrency: auto\nauto: {min: 4, max: 64}\n"
	f("{}", "{}", "engine: vllm", 16, nil)
	f("{}", "{}", "engine: vllm\nconcurrency: auto", 64, &fleet.Auto{Min: 4, Max: 64, Begin: 16})
	f("{}", "{}", "engine: ollama\nconcurrency: auto", 4, &fleet.Auto{Min: 1, Max: 4, Begin: 1})
	f("{}", "{}", "engine: ollama\n"+auto, 64, &fleet.Auto{Min: 4, Max: 64, Begin: 4})
	f("{}", "{}", "engine: vllm\nconcurrency: auto\nauto: {min: 2, max: 9}", 9, &fleet.Auto{Min: 2, Max: 9, Begin: 9})
	f("{}", "permits: {per_endpoint: 20}", "engine: vllm\n"+auto, 64, &fleet.Auto{Min: 4, Max: 64, Begin: 20})
	f("{}", "permits: {per_endpoint: 5000}", "concurrency: auto", 10000, &fleet.Auto{Min: 1250, Max: 10000, Begin: 5000})
	f("engines: {vllm: {concurrency: auto, auto: {min: 2, max: 99}}}", "{}", "engine: vllm", 99, &fleet.Auto{Min: 2, Max: 99, Begin: 16})
	f("engines: {vllm: {concurrency: auto}}\nendpoint: {auto: {min: 3, max: 33}}", "{}", "engine: vllm", 33, &fleet.Auto{Min: 3, Max: 33, Begin: 16})
	f("engines: {vllm: {concurrency: auto}}", "permits: {per_endpoint: 20}", "engine: vllm", 20, nil) // the pool is the stronger
	f("engines: {vllm: {concurrency: auto}}", "{}", "engine: vllm\nconcurrency: 7", 7, nil)
	f("endpoint: {auto: {min: 2, max: 99}}", "{}", "engine: vllm\nconcurrency: 7", 7, nil)
	f("endpoint: {auto: {min: 2, max: 99}}", "{}", "engine: vllm\nconcurrency: auto", 99, &fleet.Auto{Min: 2, Max: 99, Begin: 16})
	f("engines: {vllm: {concurrency: 64}}", "{}", "engine: vllm\nconcurrency: auto", 256, &fleet.Auto{Min: 16, Max: 256, Begin: 64})
	f("engines: {tgi: {concurrency: 64}}", "{}", "engine: vllm\nconcurrency: auto", 64, &fleet.Auto{Min: 4, Max: 64, Begin: 16})
	f("engines: {vllm: {concurrency: 0}}", "{}", "engine: vllm\nconcurrency: auto", 64, &fleet.Auto{Min: 4, Max: 64, Begin: 16})
	f("endpoint: {concurrency: 200}", "{}", "engine: vllm\nconcurrency: auto", 800, &fleet.Auto{Min: 50, Max: 800, Begin: 200})
	f("endpoint: {concurrency: 200}\nengines: {vllm: {concurrency: 64}}", "{}", "engine: vllm\nconcurrency: auto", 256,
		&fleet.Auto{Min: 16, Max: 256, Begin: 64})
	f("endpoint: {concurrency: 200}\nengines: {vllm: {concurrency: auto}}", "{}", "engine: vllm", 800,
		&fleet.Auto{Min: 50, Max: 800, Begin: 200})
	f("endpoint: {concurrency: 200}\nengines: {vllm: {concurrency: 64}}", "permits: {per_endpoint: 20}", "engine: vllm\nconcurrency: auto", 80,
		&fleet.Auto{Min: 5, Max: 80, Begin: 20})
	f("endpoint: {auto: {min: 2, max: 99}}", "{}", "engine: vllm\n"+auto, 64, &fleet.Auto{Min: 4, Max: 64, Begin: 16})
}

func TestAutoDumped(t *testing.T) {
	docs := documents(t, "endpoints/ams/e", endpointHead+"concurrency: auto\nauto: {min: 4, max: 64}")
	text, err := json.Marshal(docs.Table())
	if err != nil || !strings.Contains(string(text), `"concurrency":"auto"`) || !strings.Contains(string(text), `"auto":{"min":4,"max":64}`) ||
		strings.Contains(string(text), `"concurrency":64`) {
		t.Errorf("%s, %v", text, err)
	}
}
