package entry

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/internal/docpage"
)

// The simulation of a day sends the demand of a whole planet through real entries to colos with real pools of permits, in the virtual time of a
// bubble of testing/synctest. A client is a goroutine ([dayClient]). It makes a [call] and walks the plan as an entry does; its requests arrive at
// colos ([dayColo]) by function calls that take the time of a network ([dayNetwork]). A seed decides all that happens.
const daySeed = 1

// daySmall is a fleet of 36 colos with 500 endpoints, on a short day.
func daySmall() daySize {
	return daySize{colosPerCity: 1, everyCity: 2, endpoints: 500, hour: 3 * time.Second}
}

// dayFull is a fleet of 300 colos with 10 000 endpoints.
func dayFull() daySize {
	return daySize{colosPerCity: 5, everyCity: 1, endpoints: 10000, hour: 12 * time.Second}
}

// simulateDay simulates one day.
func simulateDay(t *testing.T, v dayVariant) *dayResult {
	t.Helper()
	d := newDay(t, v)
	synctest.Test(t, func(t *testing.T) {
		if err := d.run(); err != nil {
			t.Error(err)
		}
		for _, c := range d.colos {
			if load := c.pool.Load(); load.Held != 0 || load.Queued != 0 {
				t.Errorf("%s holds %d permits and %d requests at the end", c.name, load.Held, load.Queued)
			}
			if err := c.pool.Check(); err != nil {
				t.Error(err)
			}
		}
	})
	r := d.result()
	for _, fault := range r.faults {
		t.Error(fault)
	}
	return r
}

// Days of a small fleet keep the rules, and a seed decides all that happens.
func TestDay(t *testing.T) {
	t.Parallel()
	variants := dayVariants(daySmall())
	last := len(variants) - 1
	results := simulateDays(t, append(variants[:dayAlgorithms], variants[last], variants[last]))
	if first, second := results[dayAlgorithms], results[dayAlgorithms+1]; !reflect.DeepEqual(first, second) {
		t.Errorf("a second day with the same seed is another one:\n%+v\n%+v", second.total, first.total)
	}
}

// On a day on which most attempts fail, entries and colos together keep the retry budget of each entry, and nothing is left over.
func TestDayOfFailures(t *testing.T) {
	t.Parallel()
	for _, onward := range []bool{false, true} {
		r := simulateDay(t, dayVariant{size: daySmall(), seed: daySeed, algorithm: fleet.AlgorithmLatency, onward: onward, failing: 0.6})
		r.checkEnds(t)
		r.checkAttempts(t)
	}
}

// The page has the results of the whole fleet.
func TestDayInFull(t *testing.T) {
	if os.Getenv("COLONNADE_SOAK") == "" && !docpage.Updating() {
		t.Skip("takes minutes; COLONNADE_SOAK=1 or -update runs it")
	}
	results := simulateDays(t, dayVariants(dayFull()))
	if !t.Failed() && (docpage.Updating() || runtime.GOARCH == "amd64") { // elsewhere, floats are rounded in other ways
		writeDay(t, results)
	}
}

// dayAlgorithms is the number of algorithms.
const dayAlgorithms = 4

// dayVariants returns a day for each algorithm, and then the same with colos that go on by themselves.
func dayVariants(size daySize) []dayVariant {
	var variants []dayVariant
	for _, onward := range []bool{false, true} {
		for _, algorithm := range [dayAlgorithms]string{fleet.AlgorithmSteps, fleet.AlgorithmRandom, fleet.AlgorithmFlow, fleet.AlgorithmLatency} {
			variants = append(variants, dayVariant{size: size, seed: daySeed, algorithm: algorithm, onward: onward})
		}
	}
	return variants
}

// simulateDays simulates several days.
func simulateDays(t *testing.T, variants []dayVariant) []*dayResult {
	t.Helper()
	results := make([]*dayResult, len(variants))
	t.Run("days", func(t *testing.T) {
		for i, v := range variants {
			t.Run(fmt.Sprintf("%s onward %v", v.algorithm, v.onward), func(t *testing.T) {
				t.Parallel()
				results[i] = simulateDay(t, v)
				results[i].check(t)
			})
		}
	})
	if !t.Failed() {
		checkAdded(t, results)
	}
	return results
}

// checkAdded checks that algorithms which go by the distance add less latency than random: to most requests, and all but latency on average.
// Latency does not spread the requests of a region without room, so some of them wait in the queues of near colos.
func checkAdded(t *testing.T, results []*dayResult) {
	t.Helper()
	random := results[slices.IndexFunc(results, func(r *dayResult) bool { return r.variant.algorithm == fleet.AlgorithmRandom })]
	for _, r := range results {
		mean, most := per(r.total.added, r.total.answered), per(random.total.added, random.total.answered)
		switch a := r.variant.algorithm; {
		case a == fleet.AlgorithmRandom:
		case r.median >= random.median:
			t.Errorf("%s adds %v to half of the requests, random %v", a, r.median, random.median)
		case a != fleet.AlgorithmLatency && mean >= most:
			t.Errorf("%s adds %.0f ms to a request, random %.0f ms", a, mean/1e6, most/1e6)
		}
	}
}

// check checks what must hold on every day.
func (r *dayResult) check(t *testing.T) {
	t.Helper()
	r.checkEnds(t)
	r.checkAttempts(t)
	r.checkLoss(t)
	if r.variant.onward == (r.total.coloBytes == 0) {
		t.Errorf("%d bytes between colos", r.total.coloBytes)
	}
}

// checkLoss checks that while a region is lost, the others serve the requests that they have room for: nine of ten at least, since requests
// that are refused come back later.
func (r *dayResult) checkLoss(t *testing.T) {
	t.Helper()
	demand, left := r.demand(), r.slotsLeft()
	for i, n := range r.buckets {
		// Half an hour after the loss, all entries know of it.
		if hour := float64(i) * 24 / dayBuckets; hour < dayLostFrom+0.5 || hour >= dayLostTo {
			continue
		}
		if room := min(1, left[i]/demand[i]); per(n.answered, n.clients) < 0.9*room {
			t.Errorf("in span %d, %d of %d clients are answered, and there is room for %.0f %%", i, n.answered, n.clients, 100*room)
		}
	}
}

// checkEnds checks that each client has one end, and each request one result.
func (r *dayResult) checkEnds(t *testing.T) {
	t.Helper()
	n := r.total
	if n.clients == 0 || n.served+n.gaveUp+n.cut != n.clients || n.answered+n.refused+n.failed != n.requests || n.answered != n.served+n.cut {
		t.Errorf("not every request has its end: %+v", n)
	}
}

// checkAttempts checks the retry budgets: an entry's allows 1.2 attempts at engines for each request, and 3 more. Colos of requests that run at
// once may each make one more, since an entry learns of it with the answer.
func (r *dayResult) checkAttempts(t *testing.T) {
	t.Helper()
	const atOnce = 10
	for i, n := range r.regions {
		if allowed := 1.2*float64(n.requests) + 3 + atOnce; float64(r.attempts[i]) > allowed {
			t.Errorf("entry %d has made %d attempts at engines, at most %.0f are allowed", i, r.attempts[i], allowed)
		}
	}
}
