package main

import (
	"strings"
	"testing"
)

// An endpoint that drains is shown with the requests that it still has, and is not counted as out.
func TestStatusShowsDrainingEndpoints(t *testing.T) {
	f := func(state string, want ...string) {
		t.Helper()
		showsDraining(t, state, want...)
	}
	f(`"state": "draining"`, "draining (3 in hand)")
	f(`"state": "draining", "withheld": true, "reason": "the engine has ended (exit status 1)"`, "draining (3 in hand): the engine has ended (exit status 1)")
	f(`"state": "withheld", "withheld": true`, "withheld")
}

func showsDraining(t *testing.T, state string, want ...string) {
	t.Helper()
	page := strings.Replace(idlePage, `"state": "up"`, state+`, "draining": true, "held": 3`, 1)
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: p\n", "colos/fra": "{}", "endpoints/fra/gpu-0": "url: http://127.0.0.1:1\npool: p\n"})
	pooled("fra-1", page).register(t, s, "servers/fra/fra-1")
	out := strings.Join(strings.Fields(run(t, "", "status").want(t)), " ")
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("status does not say %q:\n%s", text, out)
		}
	}
	if strings.Contains(out, "OUT") {
		t.Errorf("a draining endpoint counts as out:\n%s", out)
	}
}
