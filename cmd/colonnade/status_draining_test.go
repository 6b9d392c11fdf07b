package main

import (
	"strings"
	"testing"
)

// An endpoint that drains is shown with the requests that it still has, and is not counted as out.
func TestStatusShowsDrainingEndpoints(t *testing.T) {
	page := strings.Replace(idlePage, `"state": "up"`, `"state": "draining", "draining": true, "held": 3`, 1)
	s := startEtcd(t)
	put(t, s, map[string]string{"models/m": "pool: p\n", "colos/fra": "{}", "endpoints/fra/gpu-0": "url: http://127.0.0.1:1\npool: p\n"})
	pooled("fra-1", page).register(t, s, "servers/fra/fra-1")
	out := strings.Join(strings.Fields(run(t, "", "status").want(t)), " ")
	for _, want := range []string{"draining (3 in hand)", "draining"} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "OUT") {
		t.Errorf("a draining endpoint counts as out:\n%s", out)
	}
}
