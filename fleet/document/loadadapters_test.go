package document_test

import (
	"strings"
	"testing"

	"colonnade/fleet/document"
)

func TestLoadAdaptersRules(t *testing.T) {
	f := func(key, value, want string) {
		t.Helper()
		err := document.Check(key, []byte(value))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	const e = "endpoints/ams/e"
	f(e, endpointHead+"load_adapters: true", "")
	f(e, endpointHead+"engine: vllm\nload_adapters: true\nadapters: []", "")
	f(e, endpointHead+"engine: tgi\nload_adapters: false", "")
	f(e, endpointHead+"load_adapters: all", `load_adapters: "all": must be true or false`)
	f(e, endpointHead+"engine: tgi\nload_adapters: true", "load_adapters: true: tgi does not load adapters with their first request")
	f("defaults", "endpoint: {load_adapters: true}", "")
	f("defaults", "engines: {vllm: {load_adapters: true}}", "")
	f("defaults", "engines: {ollama: {load_adapters: true}}", "engines.ollama.load_adapters: true: ollama does not load adapters")
	f("defaults", "endpoint: {engine: tei, load_adapters: true}", "endpoint.load_adapters: true: tei does not load adapters")
}

// Defaults reach the endpoints whose engines can load adapters, and an endpoint's own document overrides them.
func TestLoadAdaptersLayers(t *testing.T) {
	f := func(defaults, own string, want bool) {
		t.Helper()
		table := documents(t, "defaults", defaults, "endpoints/ams/e", endpointHead+own).Table()
		if got := table.EndpointsOf("ams")[0].LoadAdapters; got != want {
			t.Errorf("%q, %q: %v, want %v", defaults, own, got, want)
		}
		roundTrip(t, table)
	}
	f("{}", "", false)
	f("{}", "load_adapters: true", true)
	f("endpoint: {load_adapters: true}", "", true)
	f("endpoint: {load_adapters: true}", "load_adapters: false", false)
	f("endpoint: {load_adapters: true}", "engine: tgi", false)
	f("engines: {vllm: {load_adapters: true}}", "engine: sglang", false)
	f("engines: {vllm: {load_adapters: true}}", "engine: vllm", true)
}
