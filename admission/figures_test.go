package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/discovery/engines/figures"
	"colonnade/homes"
	"colonnade/permits"
)

// sayer is an engine that says things about itself.
type sayer struct {
	figures.Figures
	err    error
	hangs  bool
	asked  int // questions so far
	asking int // questions under way
	most   int // of these, the most at once
}

func value(n float64) figures.Value { return figures.Value{N: n, Known: true} }

// listen makes the engine of an endpoint say what its sayer has.
func (s *scenario) listen(id string) *sayer {
	e := &sayer{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says[id] = func(ctx context.Context) (figures.Figures, error) {
		s.mu.Lock()
		e.asked, e.asking = e.asked+1, e.asking+1
		e.most = max(e.most, e.asking)
		said, err, hangs := e.Figures, e.err, e.hangs
		s.mu.Unlock()
		if hangs {
			<-ctx.Done()
			err = ctx.Err()
		}
		s.mu.Lock()
		e.asking--
		s.mu.Unlock()
		return said, err
	}
	return e
}

// say changes what an engine says, and waits for so many intervals of its health checks.
func (s *scenario) say(e *sayer, intervals int, change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	time.Sleep(time.Duration(intervals) * testInterval * 11 / 10)
	synctest.Wait()
}

func (s *scenario) askedOf(e *sayer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.asked
}

const testInterval = 5 * time.Second

// vllms are documents of endpoints of kind vllm with 8 slots, checked every testInterval.
func vllms(pool string, ids ...string) string {
	var all []string
	for _, id := range ids {
		all = append(all, fmt.Sprintf("key: endpoints/ams/%s\nurl: http://%s:8000\npool: %s\nengine: vllm\nconcurrency: 8\n", id, id, pool))
	}
	return strings.Join(all, "---\n")
}

func (s *scenario) engineStats(id string) *permits.EngineStats {
	s.Helper()
	for _, e := range s.pool("a").Stats().Endpoints {
		if e.ID == id {
			return e.Engine
		}
	}
	s.Fatalf("no endpoint %s", id)
	return nil
}

// engineText is what is known of what an engine says.
func (s *scenario) engineText(id string) string {
	s.Helper()
	e := s.engineStats(id)
	if e == nil {
		return "not asked"
	}
	var parts []string
	count := func(name string, n *int) {
		if n != nil {
			parts = append(parts, fmt.Sprintf("%s %d", name, *n))
		}
	}
	part := func(name string, n *float64) {
		if n != nil {
			parts = append(parts, fmt.Sprintf("%s %.3g", name, *n))
		}
	}
	count("running", e.Running)
	count("waiting", e.Waiting)
	count("beside", e.Beside)
	part("kv", e.KVCache)
	part("hits", e.PrefixHits)
	if e.Error != "" {
		parts = append(parts, "error")
	}
	return strings.Join(parts, ", ")
}

func (s *scenario) wantEngine(id, want, when string) {
	s.Helper()
	if got := s.engineText(id); got != want {
		s.Errorf("%s: %q, want %q", when, got, want)
	}
}

// Figures are shown from the first health check that the engine has answered, as far as it says anything, and no longer than three
// intervals after that.
func TestFiguresAreShownWhileTheyAreNew(t *testing.T) {
	play(t, func(s *scenario) {
		e := s.listen("one")
		e.Figures = figures.Figures{Running: value(3), Waiting: value(0), KVCache: value(0.42)}
		s.put(vllms("a", "one"))
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantEngine("one", "running 3, waiting 0, beside 3, kv 0.42", "at first")
		if age := s.engineStats("one").AgeSeconds; age == nil || *age > 1 {
			t.Errorf("it is %v s old", age)
		}
		s.say(e, 1, func() { e.Figures = figures.Figures{Waiting: value(7)} })
		s.wantEngine("one", "waiting 7", "when it says less")
		s.say(e, 2, func() { e.err = errors.New("refused") })
		s.wantEngine("one", "waiting 7, error", "for a while after its last answer")
		s.say(e, 2, func() {})
		s.wantEngine("one", "error", "later")
		s.say(e, 1, func() { e.err = nil })
		s.wantEngine("one", "waiting 7", "when it says something again")
	})
}

// An engine without metrics is asked rarely, but at once after it was out, and when its document has changed.
func TestEnginesWithoutMetricsAreAskedRarely(t *testing.T) {
	play(t, func(s *scenario) {
		e := s.listen("one")
		e.err = fmt.Errorf("%w: 404", admission.ErrNoFigures)
		s.put(vllms("a", "one"))
		want := func(n int, when string) {
			t.Helper()
			if asked := s.askedOf(e); asked != n {
				t.Errorf("%s: asked %d times, want %d", when, asked, n)
			}
		}
		s.say(e, 20, func() {})
		want(1, "after some health checks")
		s.wantEngine("one", "error", "without metrics")
		s.say(e, 120, func() {})
		want(2, "after some minutes")
		s.setHealth("one", errors.New("down"))
		s.say(e, 20, func() {})
		want(2, "while it is down")
		s.setHealth("one", nil)
		s.say(e, 4, func() { e.err, e.Figures = nil, figures.Figures{} })
		want(3, "after it was down")
		s.put(vllms("a", "one") + "metrics: {path: /other}\n")
		s.say(e, 0, func() {})
		want(4, "with another path")
		s.say(e, 4, func() {})
		want(4, "while it says nothing that is known")
		s.put(vllms("a", "one") + "metrics: {read: never}\n")
		s.say(e, 200, func() { e.Figures = figures.Figures{Running: value(1)} })
		want(4, "switched off")
		s.wantEngine("one", "not asked", "switched off")
		s.put(vllms("a", "one"))
		s.say(e, 1, func() {})
		s.wantEngine("one", "running 1, beside 1", "switched on")
		s.put(vllms("a", "one") + "metrics: {read: never}\n")
		s.say(e, 1, func() {})
		s.wantEngine("one", "not asked", "switched off again")
	})
}

// An engine that does not answer for its metrics answers its health checks in time, and is asked one question at a time.
func TestFiguresNeverDelayHealthChecks(t *testing.T) {
	play(t, func(s *scenario) {
		e := s.listen("one")
		e.hangs = true
		s.put(vllms("a", "one") + "health: {timeout: 10m}\n")
		s.say(e, 3, func() {})
		if s.askedOf(e) != 1 || e.asking != 1 {
			t.Fatalf("asked %d times, %d under way", e.asked, e.asking)
		}
		s.setHealth("one", errors.New("down"))
		s.say(e, 3, func() {})
		if state := s.pool("a").Stats().Endpoints[0].State; state != "down" {
			t.Errorf("while its metrics hang, the engine is %s", state)
		}
		s.setHealth("one", nil)
		s.say(e, 3, func() {})
		if state := s.pool("a").Stats().Endpoints[0].State; state != "up" || s.askedOf(e) != 1 || e.most != 1 {
			t.Errorf("the engine is %s; asked %d times, %d at once", state, e.asked, e.most)
		}
	})
}

// Requests that an engine has beside ours count as its load; ours do not count twice, also while its metrics are a little old.
func TestLeastLoadedCountsRequestsOfOthers(t *testing.T) {
	play(t, func(s *scenario) {
		one, two := s.listen("one"), s.listen("two")
		one.Figures, two.Figures = figures.Figures{Running: value(2), Waiting: value(1)}, figures.Figures{Running: value(0)}
		s.put(vllms("a", "one", "two"))
		s.say(one, 1, func() {})
		got := map[string]int{}
		var held []admission.Grant
		for range 5 {
			g := s.take("a")
			held = append(held, g)
			got[g.Endpoint.ID]++
		}
		if got["one"] != 1 || got["two"] != 4 {
			t.Errorf("of five requests, %v; engine one has three of others", got)
		}
		s.say(one, 1, func() { one.Running, one.Waiting, two.Running = value(4), value(0), value(4) })
		s.wantEngine("one", "running 4, waiting 0, beside 3", "with one of ours")
		s.wantEngine("two", "running 4, beside 0", "with four of ours")
		for _, g := range held {
			g.Release()
		}
		s.say(one, 2, func() {})
		s.wantEngine("two", "running 4, beside 0", "a little after ours have left, by old metrics")
		s.say(one, 3, func() { one.Running = value(0) })
		s.wantEngine("two", "running 4, beside 4", "later")
		s.say(one, 1, func() { one.err, two.err = admission.ErrNoFigures, admission.ErrNoFigures })
		got = map[string]int{}
		for range 4 {
			g := s.take("a")
			defer g.Release()
			got[g.Endpoint.ID]++
		}
		if got["one"] != 2 || got["two"] != 2 {
			t.Errorf("without metrics: %v", got)
		}
	})
}

// With concurrency: auto, an engine that has requests waiting gets fewer, and never less than the minimum. A number in the document stands.
func TestWaitingRequestsLowerTheLimit(t *testing.T) {
	play(t, func(s *scenario) {
		e := s.listen("one")
		e.Figures = figures.Figures{Running: value(12), Waiting: value(4)}
		s.put(autoEndpoint + "pool: a\nconcurrency: auto\nauto: {min: 4, max: 64}\n")
		var held []admission.Grant
		for range 16 {
			held = append(held, s.take("a"))
		}
		synctest.Wait()
		s.say(e, 3, func() {})
		s.wantLoad("a", 12, 0, "with four of sixteen requests that the engine has not begun")
		s.say(e, 20, func() {})
		s.wantLoad("a", 12, 0, "while more run than that")
		for _, g := range held[8:] {
			g.Release()
		}
		s.say(e, 40, func() { e.Running, e.Waiting = value(1), value(50) })
		if limit := s.pool("a").Load().Limit; limit < 4 || limit >= 12 {
			t.Errorf("the limit is %d", limit)
		}
		for _, g := range held[:8] {
			g.Release()
		}
		s.put(autoEndpoint + "pool: a\nconcurrency: 3\n")
		for range 3 {
			g := s.take("a")
			defer g.Release()
		}
		s.say(e, 10, func() {})
		s.wantLoad("a", 3, 0, "with a number")
	})
}

// The share of prefix hits is that of the last minute or less, and of the engine's time at first.
func TestPrefixHitsAreOfLate(t *testing.T) {
	play(t, func(s *scenario) {
		e := s.listen("one")
		prefix := func(hits, queries float64) func() {
			return func() { e.PrefixHits, e.PrefixQueries = value(hits), value(queries) }
		}
		prefix(100, 1000)()
		s.put(vllms("a", "one"))
		s.say(e, 1, func() {})
		s.wantEngine("one", "hits 0.1", "at first")
		s.say(e, 1, prefix(190, 1100))
		s.wantEngine("one", "hits 0.9", "of the last hundred tokens")
		s.say(e, 40, func() {})
		s.wantEngine("one", "hits 0.9", "while no tokens come")
		s.say(e, 1, prefix(190, 1200))
		s.wantEngine("one", "hits 0", "of the last hundred tokens")
		s.say(e, 1, prefix(5, 10))
		s.wantEngine("one", "hits 0.5", "of an engine that has begun anew")
	})
}

// An engine on which another server may grant is not asked, and nothing that it has said before counts.
func TestEnginesOfOtherServersAreNotAsked(t *testing.T) {
	play(t, func(s *scenario) {
		e := s.listen("one")
		e.Running = value(3)
		s.put(vllms("a", "one"))
		s.say(e, 1, func() {})
		s.wantEngine("one", "running 3, beside 3", "with all grants")
		s.SetGrants(&homes.Grants{})
		s.say(e, 1, func() {})
		s.wantEngine("one", "not asked", "without the grant")
		asked := s.askedOf(e)
		s.say(e, 9, func() {})
		if n := s.askedOf(e); n != asked {
			t.Errorf("asked %d times by a server that may not grant there", n-asked)
		}
		s.SetGrants(nil)
		s.say(e, 1, func() {})
		s.wantEngine("one", "running 3, beside 3", "with all grants again")
	})
}
