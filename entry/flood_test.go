package entry

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/reasons"
)

var flood = floodKey{account: "a", model: "m", priority: "standard"}

// flooded returns a flood guard after so many refusals by all colos at one moment, each with a Retry-After.
func flooded(at time.Time, refusals int, retryAfter time.Duration) *floodGuard {
	g := newFloodGuard()
	for range refusals {
		g.refused(flood, openai.OutOfCapacity(reasons.QueueFull, retryAfter), 0, at)
	}
	return g
}

// ownRefusals returns how many of n requests the entry refuses by itself.
func ownRefusals(g *floodGuard, key floodKey, at time.Time, n int) (refused int) {
	for range n {
		if g.refusal(key, at, 0) != nil {
			refused++
		}
	}
	return refused
}

// Retry-After has jitter, and is at most 32 s, also where that of the colos is nearly as long.
func TestRetryAfterOfAFloodIsBounded(t *testing.T) {
	start := time.Now()
	for _, c := range []struct{ colos, jittered time.Duration }{
		{8 * time.Second, 10 * time.Second}, {30 * time.Second, 32 * time.Second}, {32 * time.Second, 32 * time.Second},
	} {
		for jitter, want := range map[float64]time.Duration{0: c.colos, 0.5: (c.colos + c.jittered) / 2, 1: c.jittered} {
			if e := flooded(start, 11, c.colos).refusal(flood, start, jitter); e == nil || e.RetryAfter != want {
				t.Errorf("colos say %v, jitter %v: %+v, want %v", c.colos, jitter, e, want)
			}
		}
	}
}

// An account is refused by the entry after more than ten refusals by all colos within a second, but for one request in eight.
func TestFloodIsRefused(t *testing.T) {
	start := time.Now()
	f := func(refusals int, every, later time.Duration, want int) {
		t.Helper()
		g := newFloodGuard()
		at := start
		for range refusals {
			g.refused(flood, openai.OutOfCapacity(reasons.QueueFull, 20*time.Second), 0, at)
			at = at.Add(every)
		}
		if got := ownRefusals(g, flood, at.Add(later), 80); got != want {
			t.Errorf("%d refusals, one each %v, and %v later: %d of 80 refused by the entry, want %d", refusals, every, later, got, want)
		}
	}
	f(10, 0, 0, 0)
	f(11, 0, 0, 70)
	f(500, 0, 0, 70)
	f(11, 90*time.Millisecond, 0, 70)
	f(500, 100*time.Millisecond, 0, 0) // an account within its share
	f(11, 0, time.Second, 0)           // the flood has stopped
	f(0, 0, 0, 0)
}

// A flood lasts as long as its requests come, also if the entry refuses nearly all of them.
func TestFloodIsRefusedAsLongAsItLasts(t *testing.T) {
	at := time.Now()
	g := flooded(at, 11, 32*time.Second)
	for range 100 {
		at = at.Add(50 * time.Millisecond)
		ownRefusals(g, flood, at, 1)
	}
	if n := ownRefusals(g, flood, at, 8); n != 7 {
		t.Errorf("%d of 8 refused after five seconds of twenty requests a second, want 7", n)
	}
}

// The refusal is the colos' latest, with the least time that is left of those that they have set, at least a second.
func TestRefusalOfAFlood(t *testing.T) {
	start := time.Now()
	g := flooded(start, 11, 7*time.Second)
	g.refused(flood, openai.OutOfCapacity(reasons.QueueFull, 4*time.Second), 0, start)
	g.refused(flood, openai.OutOfCapacity(reasons.AccountQueueFull, 9*time.Second), 0, start)
	now := time.Duration(0)
	f := func(after time.Duration, jitter float64, want time.Duration) {
		t.Helper()
		for ; now < after; now += 20 * time.Millisecond {
			ownRefusals(g, flood, start.Add(now), 1)
		}
		e := g.refusal(flood, start.Add(after), jitter)
		if e == nil { // one request in eight goes to the colos
			e = g.refusal(flood, start.Add(after), jitter)
		}
		if e == nil {
			t.Errorf("after %v: not refused", after)
			return
		}
		if e.RetryAfter != want || e.Reason != reasons.AccountQueueFull || e.Number != openai.NumberOutOfCapacity {
			t.Errorf("after %v: %v, reason %s, Retry-After %v, want %v", after, e, e.Reason, e.RetryAfter, want)
		}
	}
	f(0, 0, 4*time.Second)
	f(600*time.Millisecond, 0, 3400*time.Millisecond)
	f(900*time.Millisecond, 1, 3875*time.Millisecond)
	f(3900*time.Millisecond, 0, time.Second)
}

// One request goes to the colos when the time to come back has passed, and what they answer is the next time.
func TestFloodAsksWhenTheTimeHasPassed(t *testing.T) {
	start := time.Now()
	g := flooded(start, 11, time.Second)
	later := start.Add(999 * time.Millisecond)
	ownRefusals(g, flood, later, 88) // eleven times seven refused
	later = start.Add(time.Second)
	if g.refusal(flood, later, 0) != nil {
		t.Error("refused although the time has passed")
	}
	e := g.refusal(flood, later, 0)
	if e == nil || e.RetryAfter != time.Second {
		t.Fatalf("the next request: %v, want to be refused for a second", e)
	}
	g.refused(flood, openai.OutOfCapacity(reasons.QueueFull, 6*time.Second), 0, later)
	if e = g.refusal(flood, later, 0); e == nil || e.RetryAfter != 6*time.Second {
		t.Errorf("after the answer of the colos: %+v, want to be refused for 6 s", e)
	}
}

// Clients that are refused in a flood get places in a line, an interval apart, from the least time of the colos on, and at most that of a pool. Nothing
// that is known is ignored: no place is before that time, and places stay taken when a request was admitted.
func TestFloodSpreadsItsClients(t *testing.T) {
	start := time.Now()
	g := newFloodGuard()
	const interval = 20 * time.Millisecond
	refuse := func(retryAfter time.Duration) {
		for range 11 {
			g.refused(flood, openai.OutOfCapacity(reasons.QueueFull, retryAfter), interval, start)
		}
	}
	places := func(n int, jitter float64) (all []time.Duration) {
		for len(all) < n {
			if e := g.refusal(flood, start, jitter); e != nil { // one request in eight goes to the colos
				all = append(all, e.RetryAfter)
			}
		}
		return all
	}
	refuse(2 * time.Second)
	for i, at := range places(100, 0) {
		if want := 2*time.Second + time.Duration(i)*interval; at != want {
			t.Fatalf("client %d comes back after %v, want %v", i, at, want)
		}
	}
	g.admitted(flood, start)
	refuse(time.Second)
	if at := places(1, 0)[0]; at != 4*time.Second {
		t.Errorf("after an admission, the next one comes back after %v, want 4s", at)
	}
	for i, at := range places(5000, 1) {
		if at > maxRetryAfter {
			t.Fatalf("client %d comes back after %v", i, at)
		}
	}
}

// The first request that is admitted ends the flood of its account, and of no other.
func TestFloodEndsWithAnAdmission(t *testing.T) {
	at := time.Now()
	g := flooded(at, 11, 9*time.Second)
	other := flood
	other.account = "b"
	for range 11 {
		g.refused(other, openai.OutOfCapacity(reasons.QueueFull, 9*time.Second), 0, at)
	}
	g.admitted(flood, at)
	if n := ownRefusals(g, flood, at, 80); n != 0 {
		t.Errorf("%d of 80 refused after an admission", n)
	}
	if n := ownRefusals(g, other, at, 80); n != 70 {
		t.Errorf("%d of 80 of another account refused, want 70", n)
	}
}

// A flood says nothing about another account, another model, another priority, or requests that may wait.
func TestFloodsAreKeptApart(t *testing.T) {
	at := time.Now()
	g := flooded(at, 50, 9*time.Second)
	for _, key := range []floodKey{
		{account: "b", model: "m", priority: "standard"}, {account: "a", model: "n", priority: "standard"},
		{account: "a", model: "m", priority: "interactive"}, {account: "a", model: "m", priority: "standard", never: true},
		{account: "a", model: "m", priority: "standard", free: true},
	} {
		if n := ownRefusals(g, key, at, 80); n != 0 {
			t.Errorf("%+v: %d of 80 refused", key, n)
		}
	}
}

// At most ten thousand states are remembered. The oldest are forgotten first, and those that have ended before there are so many.
func TestFloodGuardIsBounded(t *testing.T) {
	at := time.Now()
	g := newFloodGuard()
	e := openai.OutOfCapacity(reasons.QueueFull, 9*time.Second)
	key := func(i int) floodKey { return floodKey{account: fmt.Sprint(i), model: "m"} }
	for i := range maxFloodStates + 5 {
		for range 11 {
			g.refused(key(i), e, 0, at)
		}
	}
	if n := len(g.states); n != maxFloodStates || g.byAge.Len() != n || int(g.known.Load()) != n {
		t.Errorf("%d states in the map and %d in the list, want %d; %d are counted", n, g.byAge.Len(), maxFloodStates, g.known.Load())
	}
	if first, last := ownRefusals(g, key(0), at, 8), ownRefusals(g, key(maxFloodStates+4), at, 8); first != 0 || last != 7 {
		t.Errorf("%d of 8 refused of the oldest state, and %d of the newest; want 0 and 7", first, last)
	}
	for i := range maxFloodStates {
		g.refused(key(-1-i), e, 0, at.Add(time.Minute))
	}
	if _, ok := g.states[key(maxFloodStates)]; ok || len(g.states) > maxFloodStates {
		t.Errorf("%d states, with one that ended a minute ago", len(g.states))
	}
	g.refused(key(-1-maxFloodStates), e, 0, at.Add(2*time.Minute))
	if n := len(g.states); n != maxFloodStates-1 {
		t.Errorf("%d states after one more when all others have ended, want %d", n, maxFloodStates-1)
	}
}

// fullColos is an entry with colos that are full until they serve, and what was asked of them.
type fullColos struct {
	url     string
	entry   *Entry
	events  string
	asked   [3]atomic.Int64
	serving atomic.Bool
	waited  atomic.Bool // refusals come from the end of a wait
}

func startFullColos(t testing.TB) *fullColos {
	t.Helper()
	s := &fullColos{events: t.TempDir()}
	documents := "key: models/m\nrouting: {steps: [{}]}\n---\nkey: accounts/open\nadmin: true\n"
	for i, name := range []string{"ams", "fra", "iad"} {
		documents += colo(t, name, func(w http.ResponseWriter, r *http.Request) {
			s.asked[i].Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			if s.serving.Load() {
				w.Header().Set(hop.HeaderAttempts, "1")
				_, _ = io.WriteString(w, `{}`)
				return
			}
			w.Header().Set(hop.HeaderQueuedMS, "3") // as long as a busy colo may need to refuse
			verdict := "ooc;reason=account_queue_full;number=42902;retry_after_ms=20000"
			if s.waited.Load() {
				verdict += ";waited=1"
			}
			w.Header().Set(hop.HeaderVerdict, verdict)
			w.WriteHeader(http.StatusTooManyRequests)
		})
	}
	s.url, s.entry = startEntryWith(t, Config{Table: tableFunc(tableOf(t, documents))}, s.events)
	return s
}

// ask sends a request, and returns the response without its body.
func (s *fullColos) ask(t testing.TB, headers ...string) *http.Response {
	t.Helper()
	r, _ := http.NewRequest(http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(request))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{}
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer
}

// flood sends requests of many clients that do not wait for Retry-After, and returns how many were refused.
func (s *fullColos) flood(t testing.TB, clients, each int) (refused int64) {
	t.Helper()
	var all sync.WaitGroup
	var count atomic.Int64
	for range clients {
		all.Go(func() {
			for range each {
				if s.ask(t).StatusCode == http.StatusTooManyRequests {
					count.Add(1)
				}
			}
		})
	}
	all.Wait()
	return count.Load()
}

// askedOnce returns how many requests went to any colo.
func (s *fullColos) askedOnce() (n int64) {
	for i := range s.asked {
		n = max(n, s.asked[i].Load())
	}
	return n
}

// A flood of one account costs the colos few requests. The entry's own refusals are the colos' own: status, code, reason and headers.
func TestFloodWhenAllColosAreFull(t *testing.T) {
	t.Parallel()
	s := startFullColos(t)
	refused := s.flood(t, 64, 30)
	if asked := s.askedOnce(); refused != 64*30 || 5*asked > refused || 12*asked < refused {
		t.Errorf("%d requests refused, and %d of them asked colos; want between a twelfth and a fifth", refused, asked)
	}
	var own *http.Response
	for range 2 { // one in eight goes to the colos
		if a := s.ask(t); own == nil || a.Header.Get(hop.HeaderRetryAfter) != "20" {
			own = a
		}
	}
	if own.StatusCode != 429 || own.Header.Get(hop.HeaderReason) != reasons.AccountQueueFull || own.Header.Get(hop.HeaderRetryAfter) == "" ||
		own.Header.Get(hop.HeaderRetryAfterMS) == "" || own.Header.Get(hop.HeaderRequestID) == "" {
		t.Errorf("the refusal of the entry: %d %v", own.StatusCode, own.Header)
	}
	forced := s.asked[1].Load()
	for range 20 {
		s.ask(t, hop.HeaderForceColo, "fra")
	}
	if n := s.asked[1].Load() - forced; n != 20 {
		t.Errorf("%d of 20 requests that name a colo went there", n)
	}
	s.expectCounted(t, refused)
	before := s.askedOnce()
	for range 10 {
		s.ask(t, hop.HeaderQueue, "never")
	}
	if n := s.askedOnce() - before; n != 10 {
		t.Errorf("%d of 10 requests that must not wait went to the colos, want all: the refusals of others say nothing about them", n)
	}
}

// expectCounted expects that the metric and the events show which requests the entry has refused by itself.
func (s *fullColos) expectCounted(t *testing.T, refused int64) {
	t.Helper()
	families, err := s.entry.config.Metrics.(*metrics.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := -1.0
	for _, f := range families {
		if f.GetName() == "colonnade_refusals_by_entry_total" {
			counted = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	own := 0
	for e, err := range journal.ReadDir(s.events) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd && e.RefusedByEntry {
			own++
			if e.Outcome != analytics.OutcomeRefused || e.Status != 429 || e.Reason != reasons.AccountQueueFull || len(e.ColoPath) > 0 || e.Partial {
				t.Fatalf("the event %+v", e)
			}
		}
	}
	if own == 0 || float64(own) != counted || 5*int64(own) < 4*refused {
		t.Errorf("%d events and the metric %v of requests that the entry refused by itself, want most of %d", own, counted, refused)
	}
}

// The first request that is admitted, or that waits in a queue, ends the flood: the next ones go to the colos.
func TestFloodEndsWithTheFirstAdmission(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"admission", "wait"} {
		s := startFullColos(t)
		s.flood(t, 1, 60)
		s.serving.Store(end == "admission")
		s.waited.Store(end == "wait")
		before := s.askedOnce()
		for range 9 { // one of them goes to the colos
			s.ask(t)
		}
		if s.askedOnce() == before {
			t.Fatalf("%s: no request in nine went to the colos", end)
		}
		before = s.askedOnce()
		s.waited.Store(false)
		for range 10 {
			s.ask(t)
		}
		if n := s.askedOnce() - before; n != 10 {
			t.Errorf("%s: %d of 10 requests went to the colos after it", end, n)
		}
	}
}

// BenchmarkFlood sends the requests of 64 clients of one account that do not wait for Retry-After to an entry with three full colos.
func BenchmarkFlood(b *testing.B) {
	s := startFullColos(b)
	refused := int64(0)
	for b.Loop() {
		refused += s.flood(b, 64, 20)
	}
	hops := int64(0)
	for i := range s.asked {
		hops += s.asked[i].Load()
	}
	refused = cmp.Or(refused, 1)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(s.askedOnce())/float64(refused), "asked/refused")
	b.ReportMetric(float64(hops)/float64(refused), "hops/refused")
}

// BenchmarkFloodGuard is what a request pays for the question whether it is part of a flood: one that is not, and one that is.
func BenchmarkFloodGuard(b *testing.B) {
	now := time.Now()
	g := flooded(now, 11, 32*time.Second)
	quiet := flood
	quiet.account = "b"
	for name, key := range map[string]floodKey{"quiet": quiet, "flood": flood} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.refusal(key, now, 0.5)
			}
		})
	}
}
