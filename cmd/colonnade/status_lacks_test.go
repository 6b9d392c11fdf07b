package main

import (
	"strings"
	"testing"
)

// The line of an endpoint says for which model or path it gets no requests, and why.
func TestStatusShowsWhatEndpointsLack(t *testing.T) {
	page := strings.Replace(idlePage, `"granting": true`, `"granting": true, "lacks": [
 {"url": "http://10.0.1.1:8000", "model": "sql", "reason": "404: The model does not exist.", "again_seconds": 7.5},
 {"url": "http://10.0.1.1:8000", "path": "/v1/rerank", "reason": "404: Not Found", "again_seconds": null},
 {"url": "http://10.0.1.2:8000", "model": "other", "reason": "404"}]`, 1)
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: p\n", "colos/fra": "{}", "endpoints/fra/gpu-0": "url: http://127.0.0.1:1\npool: p\n"})
	pooled("fra-1", page).register(t, s, "servers/fra/fra-1")
	out := strings.Join(strings.Fields(run(t, "", "status").want(t)), " ")
	for _, want := range []string{
		"no requests for the model sql for 7.50s (404: The model does not exist.)", "no requests for /v1/rerank (404: Not Found)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "other") {
		t.Errorf("it shows what an endpoint lacks that it does not have:\n%s", out)
	}
}

// A pool says what there was of requests that take no slot, once there was one.
func TestStatusShowsRequestsWithoutSlots(t *testing.T) {
	page := strings.Replace(idlePage, `"granting": true`, `"granting": true,
 "no_slot": {"limit": 64, "per_account": 16, "held": 2, "granted": 9, "refused": {"busy": 1, "account_limit": 4}, "other_accounts": 0}`, 1)
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: p\n", "colos/fra": "{}", "endpoints/fra/gpu-0": "url: http://127.0.0.1:1\npool: p\n"})
	pooled("fra-1", page).register(t, s, "servers/fra/fra-1")
	out := strings.Join(strings.Fields(run(t, "", "status").want(t)), " ")
	if want := "no slot 9 served beside the slots, 2 running; refused: account_limit 4, busy 1"; !strings.Contains(out, want) {
		t.Errorf("status does not say %q:\n%s", want, out)
	}
}
