package main

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/permits"
)

// With -pool, the line below an endpoint has what its engine says about itself; without, the endpoint's line has requests that wait inside.
func TestStatusShowsWhatEnginesSay(t *testing.T) {
	page := strings.Replace(idlePage, `"auto":`, `"engine": {"running": 3, "waiting": 2, "beside": 1, "kv_cache": 0.42, "prefix_hits": 0.307,
 "adapters": ["a", "b\u001b[31m"], "age_seconds": 1.5}, "auto":`, 1)
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: chat\n", "colos/fra": "{}", "endpoints/fra/gpu-0": "url: http://127.0.0.1:1\npool: chat\n"})
	pooled("fra-1", page).register(t, s, "servers/fra/fra-1")
	overview, pool := run(t, "", "status").want(t), run(t, "", "status", "-pool", "chat").want(t)
	if !strings.Contains(overview, ", 2 requests waiting inside") || strings.Contains(overview, "engine: ") {
		t.Errorf("the overview is\n%s", overview)
	}
	if want := "engine: running 3, waiting 2, of other clients 1, KV cache 42 %, prefix hits 31 %, adapters a, b"; !strings.Contains(pool, want) || strings.Contains(pool, "\x1b[31m") {
		t.Errorf("status -pool does not say %q:\n%q", want, pool)
	}
}

// With -pool, a line has what is known of the prefix cache of an engine.
func TestStatusShowsPrefixCaches(t *testing.T) {
	f := func(cache, want string) {
		t.Helper()
		var e permits.EndpointStats
		if err := json.Unmarshal([]byte(cache), &e); err != nil {
			t.Fatal(err)
		}
		if got := cacheText(&e); got != want {
			t.Errorf("%s is shown as %q, want %q", cache, got, want)
		}
	}
	f(`{}`, "")
	f(`{"indexed_bytes": 2048}`, "2048 bytes of prompts indexed")
	f(`{"cache": {"size_bytes": 20971520, "losses": 2}}`, "0 bytes of prompts indexed, room for 20 MiB, lost 2 times")
	f(`{"cache": {"losses": 1, "events": {"error": "refused"}}}`, "lost 1 time, events cannot be read: refused")
	f(`{"cache": {"events": {}}}`, "events are not read yet")
	f(`{"cache": {"events": {"connected": true, "events": 7}}}`, "7 events read")
	f(`{"cache": {"events": {"connected": true, "events": 7, "resident_tokens": 900}}}`, "900 tokens resident by events")
}
