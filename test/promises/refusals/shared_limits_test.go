package refusals_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/internal/proctest"
	"colonnade/internal/redistest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// Two entries share an account's limit through Redis. While Redis is killed, they enforce their shares, the operator sees it, and clients
// never get more than the limit, nor after it has come back without its data.
func TestEntriesShareLimits(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	const limit = 60
	f := proctest.Start(t, proctest.Config{
		Entries: 2, Environment: []string{"COLONNADE_REDIS=" + redis.URL()},
		Documents: "---\nkey: accounts/open\nlimits: {requests_per_minute: 60}\n",
	})
	began, served := time.Now(), 0
	// ask sends a request to each entry, and reports whether one was refused for the limit.
	ask := func() (refused bool) {
		for _, e := range f.Entries {
			status, h, body := testkit.Post("http://"+e.Address+"/v1/chat/completions", `{"model":"pool-1","max_tokens":1,"messages":[]}`)
			switch {
			case status == 200:
				served++
			case status == 429 && h.Get("x-colonnade-reason") == "request_limit" && h.Get("retry-after") != "":
				refused = true
			default:
				t.Fatalf("%s: %d %v %s", e.Name, status, h, body)
			}
		}
		return refused
	}
	up := func(want bool) {
		t.Helper()
		testkit.WaitFor(t, "both entries to notice", func() bool {
			ask()
			for _, e := range f.Entries {
				var page node.ConfigState
				if _, body := e.Get("/debug/config"); json.Unmarshal([]byte(body), &page) != nil || page.Redis == nil || page.Redis.Up != want {
					return false
				}
				if _, body := e.Get("/metrics"); strings.Contains(body, "\ncolonnade_redis_up 1") != want {
					return false
				}
			}
			return true
		})
	}
	testkit.WaitFor(t, "the limit to be reached", ask)
	wasAway := func(e *proctest.Node) bool { return strings.Contains(e.Output(), "redis does not answer") }
	if served < limit/2 && !slices.ContainsFunc(f.Entries, wasAway) { // a busy machine may take longer than Redis is allowed to
		t.Errorf("%d requests were served before the first refusal", served)
	}
	redis.Kill()
	up(false)
	if out, err := f.Run("config", "status"); err != nil || !strings.Contains(out, "edge-2: Redis has not answered since") {
		t.Errorf("config status: %v\n%s", err, out)
	}
	before := served
	testkit.WaitFor(t, "a share to grant a request", func() bool { ask(); return served > before })
	redis.Run()
	up(true)
	testkit.WaitFor(t, "the limit to be reached again", ask)
	if most := limit*(1+time.Since(began).Minutes()) + 2; float64(served) > most {
		t.Errorf("%d requests were served, at most %v are allowed", served, most)
	}
	for _, e := range f.Entries {
		if log := e.Output(); !wasAway(e) || !strings.Contains(log, "share=0.5 ") {
			t.Errorf("%s does not log that it enforces half of the limits: %s", e.Name, log)
		}
	}
}
