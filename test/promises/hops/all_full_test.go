package hops_test

import (
	"slices"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
)

// Each of three full colos is asked once, and the client gets one refusal with the smallest Retry-After. A request that may wait does so in
// the colo with the shortest wait, and is served there.
func TestAllColosFull(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(1), noSpill, "")
	f.warm("ams", "fra", "iad")
	release := f.fill("ams", "fra")
	waiting := slices.Concat(f.enqueue("ams", 40), f.enqueue("fra", 30))
	releaseLast := f.fill("iad")
	testkit.WaitFor(t, "the pools to notice that nothing is released", func() bool {
		ams, fra := f.Pool("ams", "demo").ExpectedMillis, f.Pool("fra", "demo").ExpectedMillis
		return ams != nil && fra != nil && *ams > 400 && *fra > 400
	})
	alone := func(colo string) time.Duration {
		a := f.RawChat(chat("only-"+colo, 1, false), "x-colonnade-queue: never")
		fleettest.OutOfCapacity.WithReason("busy").Expect(t, a)
		return time.Duration(a.APIError(t).RetryAfterMS) * time.Millisecond
	}
	for _, model := range both {
		free := alone("iad")
		before, id := f.refusals(), model+"-refused"
		a := f.RawChat(chat(model, 1, false), "x-colonnade-queue: never", "x-request-id: "+id)
		asked := f.refusals()
		for i := range asked {
			if asked[i] -= before[i]; asked[i] != 1 {
				t.Errorf("%s: colo %d was asked %d times, want once", model, i+1, asked[i])
			}
		}
		fleettest.OutOfCapacity.WithReason("busy").Expect(t, a)
		after, others := time.Duration(a.APIError(t).RetryAfterMS)*time.Millisecond, []time.Duration{alone("ams"), alone("fra")}
		free = max(free, alone("iad")) // before and after
		// It may be longer by a jitter of a quarter, and come after one more client that has yet to return: by up to 2.5 times in all.
		if after > 3*free || 3*after/2 > slices.Min(others) {
			t.Errorf("%s: Retry-After is %v, that of the colo without a queue %v, of the others %v", model, after, free, others)
		}
		if h := a.Header; h.Get("x-colonnade-colo") != "" || h.Get("x-colonnade-colo-path") != "ams, fra, iad" || h.Get("x-colonnade-attempts") != "0" {
			t.Errorf("%s: header %v", model, h)
		}
		want := []string{"request entry-1 refused"}
		if model == onward {
			want = append(want, "forward ams-1 refused", "forward fra-1 refused")
		}
		f.expectEvents(id, want...)
	}
	for _, model := range both {
		c := f.BeginChat(chat(model, 1, true), "x-request-id: "+model+"-waits")
		testkit.WaitFor(t, "the request to wait in iad", func() bool { return f.Pool("iad", "demo").Queued == 1 })
		time.Sleep(5 * time.Millisecond) // a wait that counts
		releaseLast()
		a := c.Read()
		f.expectServed(a, "ams, fra, iad")
		if a.Header.Get("x-colonnade-queued-ms") == "0" {
			t.Errorf("%s: it has waited for no time", model)
		}
		want := []string{"request entry-1 completed", "inference iad-1 completed"}
		_, events := f.events(model + "-waits")
		for _, e := range events {
			if e.Kind == "forward" { // if the last colo has let it wait at once, its answer came over the others
				want = append(want, "forward "+e.Node+" "+string(e.Outcome))
			}
		}
		f.expectEvents(model+"-waits", want...)
		releaseLast = f.fill("iad")
	}
	releaseLast()
	for _, c := range waiting {
		c.Close()
	}
	release()
	f.freeSoon("ams", "fra", "iad")
}
