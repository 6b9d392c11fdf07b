package colo

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/openai"
	"colonnade/permits"
)

// The request for a permit is made of the account in the hop token, the claims of the body, and the time that is left for waiting.
func TestPermitIsAskedFor(t *testing.T) {
	docs := document.NewSet()
	if err := docs.Put("pools/p", []byte("queue: {max_wait: 8s, spill_wait: 100ms}"), 1); err != nil {
		t.Fatal(err)
	}
	d := admission.NewManager("ams", nil, slog.New(slog.DiscardHandler))
	d.Apply(docs.Table())
	pool, _ := d.Pool("p")
	arrived := time.Unix(1_000_000, 0)
	end := arrived.Add(time.Hour)
	f := func(what string, in func(*call), want func(*permits.Request)) {
		t.Helper()
		c := &call{
			request: &peer.Request{}, model: &fleet.Model{}, pool: pool, raw: make([]byte, 400), arrived: arrived, deadline: end,
			token: &hop.Token{Account: "a", Weight: 1, Priority: fleet.PriorityStandard, Wait: hop.WaitFull},
		}
		in(c)
		w := permits.Request{
			Account: "a", Weight: 1, Band: permits.Standard, Cost: 100, Outputs: 1, Bytes: 400, MaxExpected: -1,
			MaxWait: 8 * time.Second, Deadline: end, Arrived: arrived, Now: arrived, JitterFraction: jitterFraction(""),
		}
		want(&w)
		got := c.permitRequest(arrived)
		if (got.Progress != nil) != (c.request.Progress != nil) {
			t.Errorf("%s: progress is asked for: %v", what, got.Progress != nil)
		}
		got.Progress = nil
		if got, want := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", w); got != want {
			t.Errorf("%s: a permit is asked for with\n%s, want\n%s", what, got, want)
		}
	}
	usual := func(*permits.Request) {}
	f("a request", func(*call) {}, usual)
	f("an account", func(c *call) { c.token.Account = "b" }, func(r *permits.Request) { r.Account = "b" })
	f("a weight", func(c *call) { c.token.Weight = 7 }, func(r *permits.Request) { r.Weight = 7 })
	for priority, band := range map[string]permits.Band{
		fleet.PriorityInteractive: permits.Interactive, fleet.PriorityBatch: permits.Batch,
	} {
		f(priority, func(c *call) { c.token.Priority = priority }, func(r *permits.Request) { r.Band = band })
	}
	f("choices and prompts", func(c *call) { c.body = peeked(t, openai.Completions, `"n":4,"prompt":["a","b","c"],"max_tokens":10`) },
		func(r *permits.Request) { r.Outputs, r.Output = 12, 12*10*outputCost })
	f("inputs", func(c *call) { c.body = peeked(t, openai.Embeddings, `"input":["a","b","c"]`) }, func(r *permits.Request) { r.Outputs = 3 })
	f("a cap", func(c *call) { c.token.Concurrent = 5 }, func(r *permits.Request) { r.Concurrent = 5 })
	f("a chance", func(c *call) { c.token.ReturnProbability = 0.25 }, func(r *permits.Request) { r.ReturnProbability = 0.25 })
	f("a name", func(c *call) { c.token.RequestID = "x" }, func(r *permits.Request) { r.JitterFraction = jitterFraction("x") })
	f("progress", func(c *call) { c.request.Progress = func(hop.Progress) {} }, usual)

	f("a claim", func(c *call) { c.body = openai.Body{MaxTokens: 50} }, func(r *permits.Request) { r.Output = 100 })
	f("prices", func(c *call) {
		c.body, c.model.Cost = openai.Body{MaxTokens: 50}, fleet.Cost{Input: 0.5, Output: 3, Per: 1000}
	}, func(r *permits.Request) { r.Cost, r.Output = 50, 150 })
	f("a long body", func(c *call) { c.raw = make([]byte, 1<<20) }, func(r *permits.Request) {
		r.Cost, r.Bytes = 1<<18, 1<<20
	})

	f("waited elsewhere", func(c *call) {
		c.token.Waited = hop.Millis(3 * time.Second)
	}, func(r *permits.Request) { r.MaxWait, r.Arrived = 5*time.Second, arrived.Add(-3*time.Second) })
	f("again", func(c *call) {
		c.attempts, c.queued, c.failedURLs = 1, time.Second, []string{"x"}
	}, func(r *permits.Request) { r.Rejoin, r.MaxWait, r.Avoid = true, 7*time.Second, []string{"x"} })
	f("no wait", func(c *call) { c.token.Wait = hop.WaitNever }, func(r *permits.Request) { r.MaxWait = 0 })
	spill := func(short, most time.Duration) func(*permits.Request) {
		return func(r *permits.Request) { r.MaxExpected, r.MaxWait = short, most }
	}
	const short = 100 * time.Millisecond
	f("a short wait", func(c *call) { c.token.Wait = hop.WaitSpill }, spill(short, 4*short))
	f("a wait shorter than elsewhere", func(c *call) {
		c.token.Wait, c.token.WaitBelow = hop.WaitSpill, hop.Millis(time.Second)
	}, spill(time.Second, 4*time.Second))
	f("a short wait, although it is shorter elsewhere", func(c *call) {
		c.token.Wait, c.token.WaitBelow = hop.WaitSpill, hop.Millis(short/2)
	}, spill(short, 4*short))
	soon := arrived.Add(time.Second)
	f("a deadline", func(c *call) { c.firstByteDeadline = soon }, func(r *permits.Request) { r.Deadline = soon })
}

// The jitter of Retry-After differs between requests and is the same in all colos.
func TestJitterSeed(t *testing.T) {
	const ids, parts = 10_000, 10
	counts := [parts]int{}
	for i := range ids {
		l := jitterFraction(fmt.Sprintf("%032x", i))
		if l < 0 || l >= 1 {
			t.Fatalf("%v", l)
		}
		counts[int(l*parts)]++
	}
	for i, n := range counts {
		if n < ids/parts/2 || n > ids/parts*2 {
			t.Errorf("%d of %d have a luck of %d to %d tenths", n, ids, i, i+1)
		}
	}
}

func peeked(t *testing.T, api openai.API, members string) openai.Body {
	t.Helper()
	body, err := openai.Peek(api, "", []byte(`{"model":"m",`+members+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return body
}
