package problems_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/problems"
	"colonnade/reasons"
)

// worker is a document of a worker of the machine gpu-7 with two GPUs, of which the problem of the first is given.
func worker(endpoint, state, uses, problem string) string {
	if problem != "" {
		problem = `,"problem":"` + problem + `"`
	}
	return `{"colo":"ams","boot":"x","machine":"gpu-7","engine":{"endpoint":"` + endpoint + `","pool":"p","url":"http://h:1","restarts":3,"gpus":["` + uses +
		`"],` + state + `},"gpus":[{"index":0,"uuid":"GPU-a","mig":["MIG-1"]` + problem + `},{"index":1,"uuid":"GPU-b"}]}`
}

func TestProblemsOfWorkers(t *testing.T) {
	t.Parallel()
	const serving, out, backoff = `"state":"serving"`, `"state":"out","reason":"no answer"`, `"state":"backoff","reason":"exit status 1"`
	f := func(colo string, docs []string, want ...string) {
		t.Helper()
		found := problems.OfWorkers(table(t, docs...), colo, time.Date(2026, 11, 23, 12, 30, 0, 0, time.UTC))
		var got []string
		for _, p := range found {
			got = append(got, p.Text+" | "+p.Effect)
			if p.Severity != problems.SeverityWarning || p.Action == "" {
				t.Errorf("%+v", p)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	effect := func(kind string) string { return " | " + reasons.ProblemOf(kind).Effect }
	f("", []string{"workers/a", worker("e", serving, "GPU-a", "")})
	f("", []string{"workers/a", worker("e", `"state":"starting"`, "GPU-a", ""), "workers/b", worker("f", `"state":"draining"`, "GPU-b", "")})
	f("", []string{"workers/a", worker("e", `"state":"starting","since":"2026-11-23T12:00:01Z"`, "GPU-a", "")})
	f("", []string{"workers/a", worker("e", `"state":"starting","since":"2026-11-23T12:00:00Z","reason":"waiting"`, "GPU-a", "")},
		"workers/a: endpoints/ams/e of pool p gets no requests: it has been starting for more than 30m0s: waiting"+effect(reasons.EngineOut))
	f("", []string{"workers/a", worker("e", out, "GPU-a", "")},
		"workers/a: endpoints/ams/e of pool p gets no requests: no answer"+effect(reasons.EngineOut))
	f("", []string{"workers/a", worker("e", backoff, "GPU-a", "")},
		"workers/a: endpoints/ams/e of pool p has ended by itself, and is started again after a pause (3 restarts so far): exit status 1"+effect(reasons.EngineRestarting))
	f("fra", []string{"workers/a", worker("e", out, "GPU-a", "")})
	f("ams", []string{"workers/a", worker("e", out, "GPU-a", "Xid 79")},
		"workers/a: machine gpu-7: GPU 0 (GPU-a): Xid 79 | endpoints/ams/e of pool p gets no requests; other engines of the pool have the load")
	f("", []string{"workers/a", worker("e", out, "MIG-1", "GPU 0 (GPU-a): Xid 79"), "workers/b", worker("f", out, "GPU-a", "Xid 79"), "workers/c", worker("g", out, "GPU-b", "Xid 79")},
		"workers/a: machine gpu-7: GPU 0 (GPU-a): Xid 79 | endpoints/ams/e of pool p, endpoints/ams/f of pool p get no requests; other engines of the pool have the load",
		"workers/c: endpoints/ams/g of pool p gets no requests: no answer"+effect(reasons.EngineOut))
	f("", []string{"workers/a", worker("e", serving, "GPU-a", "Xid 79")}, "workers/a: machine gpu-7: GPU 0 (GPU-a): Xid 79 | requests of endpoints/ams/e of pool p may fail")
	f("", []string{"workers/a", worker("e", backoff, "GPU-b", "Xid 79")},
		"workers/a: machine gpu-7: GPU 0 (GPU-a): Xid 79 | none: no engine that is registered uses it",
		"workers/a: endpoints/ams/e of pool p has ended by itself, and is started again after a pause (3 restarts so far): exit status 1"+effect(reasons.EngineRestarting))
}
