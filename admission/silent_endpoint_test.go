package admission_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/permits"
)

// state returns the state of the endpoint with the ID, as /debug/pools shows it.
func (s *scenario) state(pool, id string) permits.Health {
	s.Helper()
	for _, e := range s.pool(pool).Stats().Endpoints {
		if e.ID == id {
			return e.Health
		}
	}
	s.Fatalf("pool %s has no endpoint %s", pool, id)
	return permits.Health{}
}

// hold acquires permits of a pool until it has one on each endpoint, and returns them by endpoint.
func (s *scenario) hold(pool string, ids ...string) map[string]admission.Grant {
	s.Helper()
	held := map[string]admission.Grant{}
	for range ids {
		g := s.take(pool)
		held[g.Endpoint.ID] = g
	}
	if len(held) != len(ids) {
		s.Fatalf("permits on %d endpoints, want %d", len(held), len(ids))
	}
	return held
}

// hang makes the health checks of an endpoint time out, each after its timeout.
func (s *scenario) hang(id string) { s.setHealth(id, errHangs) }

// An engine that hangs while requests are on it is out of the pool in ten seconds, whatever its interval; an engine that only answers its
// health path late stays, since it sends bytes to its requests. A byte of any request brings the first one back.
func TestEngineThatHangsUnderLoad(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one") + "health: {interval: 1h}\n---\n" + endpoints("a", 2, "two") + "health: {interval: 1h}\n")
		synctest.Wait()
		time.Sleep(time.Minute)
		held := s.hold("a", "one", "two")
		s.hang("one")
		s.hang("two")
		for range 9 {
			held["two"].Received().Store(true)
			time.Sleep(time.Second)
		}
		s.wantLoad("a", 4, 2, "after nine seconds")
		for range 31 {
			held["two"].Received().Store(true)
			time.Sleep(time.Second)
		}
		s.wantLoad("a", 2, 1, "after forty seconds")
		h := s.state("a", "one")
		if h.State != "silent" || h.StateSeconds == nil || *h.StateSeconds < 38 || *h.StateSeconds > 41 ||
			!strings.Contains(h.Reason, "no byte to any request, and ") {
			t.Errorf("it is %+v", h)
		}
		if up := s.state("a", "two"); up.State != "up" {
			t.Errorf("the engine that sends bytes is %+v", up)
		}
		held["one"].Received().Store(true)
		time.Sleep(time.Second)
		s.wantLoad("a", 4, 2, "after a byte of the one that was silent")
		for _, g := range held {
			g.Release()
		}
	})
}

// A silent engine stays silent while it holds nothing, and returns with its first health check that is answered.
func TestSilentEngineReturnsWithItsHealthCheck(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one"))
		synctest.Wait()
		g := s.take("a")
		s.hang("one")
		time.Sleep(20 * time.Second)
		g.GaveUp()
		g.Release()
		time.Sleep(time.Minute)
		if h := s.state("a", "one"); h.State != "silent" || !strings.HasSuffix(h.Reason, "; 1 client gave up") {
			t.Errorf("idle, it is %+v", h)
		}
		s.setHealth("one", nil)
		time.Sleep(30 * time.Second) // a check that hangs ends, and the next one follows after an interval with jitter
		s.wantLoad("a", 2, 2, "after a health check that was answered")
		if h := s.state("a", "one"); h.State != "up" || h.Reason != "" {
			t.Errorf("it is %+v", h)
		}
	})
}

// If all engines of a pool hang, waiting requests are refused, and so are those that come: they would wait for nothing.
func TestRequestsAreRefusedWhenAllEnginesAreSilent(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/a\nqueue: {max_wait: 1m}\n---\n" + endpoints("a", 1, "one", "two"))
		synctest.Wait()
		held := s.hold("a", "one", "two")
		s.hang("one")
		s.hang("two")
		began := time.Now()
		_, err := acquire(s.pool("a"), s.Context(), waiting(time.Hour))
		if took := time.Since(began); took > 13*time.Second {
			t.Errorf("refused after %s", took)
		}
		wantNoEndpoint(t, err)
		_, err = tryTake(s.pool("a"))
		wantNoEndpoint(t, err)
		for _, g := range held {
			g.Release()
		}
	})
}

func wantNoEndpoint(t *testing.T, err error) {
	t.Helper()
	if r, ok := err.(*permits.Refusal); !ok || r.Reason != permits.NoEndpoint || r.RetryAfter < time.Second {
		t.Errorf("got %v, want a refusal with Retry-After because there is no endpoint", err)
	}
}

// A health check that took far longer than its timeout was not made: this node was stopped, and its engines were not.
func TestNodeThatWasStoppedBlamesNoEngine(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one"))
		synctest.Wait()
		g := s.take("a")
		s.setHealth("one", errStopped)
		time.Sleep(10 * time.Minute)
		s.wantLoad("a", 2, 1, "busy")
		g.Release()
		time.Sleep(10 * time.Minute)
		s.wantLoad("a", 2, 2, "idle")
	})
}

// Each change of the state is one line of the log. A fault is a warning; its end is none, and has no error.
func TestSilenceIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newScenarioWith(t, slog.New(slog.NewTextHandler(&log, nil)))
		s.put(endpoints("a", 2, "one"))
		synctest.Wait()
		g := s.take("a")
		s.hang("one")
		time.Sleep(time.Minute)
		s.setHealth("one", nil)
		time.Sleep(30 * time.Second) // a check that hangs ends, and the next one follows after an interval with jitter
		g.Release()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines: %s", len(lines), log.String())
		}
		const fault, end = `state=silent was=up error="no byte to any request, and 1 health check timed out`, `state=up was=silent`
		if !strings.Contains(lines[0], `level=WARN msg="endpoint state changed" endpoint=one url=http://one:8000 pool=a `+fault) {
			t.Errorf("the fault is logged as %s, want %s", lines[0], fault)
		}
		if !strings.HasSuffix(lines[1], `level=INFO msg="endpoint state changed" endpoint=one url=http://one:8000 pool=a `+end) {
			t.Errorf("the return is logged as %s, want %s", lines[1], end)
		}
	})
}

// An endpoint whose lease has expired, and that hangs, is dead: its machine may be gone, and no packet comes back.
func TestSilentEndpointWithAnExpiredLeaseIsDead(t *testing.T) {
	play(t, func(s *scenario) {
		table := s.table(endpoints("a", 2, "one"))
		table.ExpiredLeases = []string{"endpoints/ams/one"}
		s.Apply(table)
		synctest.Wait()
		g := s.take("a")
		s.hang("one")
		time.Sleep(8 * time.Second)
		if keys := s.DeadEndpoints(); len(keys) != 0 {
			t.Errorf("dead after 8 seconds: %q", keys)
		}
		time.Sleep(time.Minute)
		if keys := s.DeadEndpoints(); len(keys) != 1 {
			t.Errorf("dead after a minute: %q", keys)
		}
		g.Release()
	})
}

// While an engine hangs, clients that leave it after a second do not make the pool look fast, neither while they leave nor after it speaks
// again; the drain rate is that of the engine that works.
func TestDrainRateWhileAnEngineHangs(t *testing.T) {
	play(t, func(s *scenario) {
		const health = "health: {timeout: 1s, silence: 20s}\n"
		s.put(endpoints("a", 1, "one") + health + "---\n" + endpoints("a", 1, "two") + health)
		synctest.Wait()
		for range 20 {
			held := s.hold("a", "one", "two")
			time.Sleep(4 * time.Second)
			for _, g := range held {
				g.Received().Store(true)
				g.Release()
			}
		}
		wantRate := func(least, most float64, when string) {
			s.Helper()
			if got := s.pool("a").Stats().RatePerSecond; got < least || got > most {
				s.Errorf("%s: rate %.3f a second, want %v to %v", when, got, least, most)
			}
		}
		wantRate(0.49, 0.51, "with two slots that are held for 4s each")
		held := s.hold("a", "one", "two")
		s.hang("one")
		time.Sleep(time.Second) // its last bytes are known
		for i := range 80 {     // 8 s
			held["one"].GaveUp()
			held["one"].ReleaseUnserved()
			held["one"] = s.take("a")
			held["two"].Received().Store(true)
			time.Sleep(100 * time.Millisecond)
			if i < 30 {
				wantRate(0.24, 0.51, "while nothing is known")
			} else {
				wantRate(0.24, 0.26, "once a health check has timed out")
			}
		}
		for _, g := range held {
			g.GaveUp()
			g.ReleaseUnserved()
		}
		time.Sleep(20 * time.Second)
		s.setHealth("one", nil)
		time.Sleep(20 * time.Second)
		wantRate(0.47, 0.53, "after the engine speaks again")
	})
}

// A client that leaves an engine that works frees a slot as any other.
func TestClientsThatLeaveAnEngineThatWorksCountInTheDrainRate(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		synctest.Wait()
		for range 20 {
			g := s.take("a")
			time.Sleep(2 * time.Second)
			g.Received().Store(true)
			g.GaveUp()
			g.ReleaseUnserved()
		}
		time.Sleep(time.Second)
		if got := s.pool("a").Stats().RatePerSecond; got < 0.49 || got > 0.51 {
			t.Errorf("rate %.3f a second, want 0.5", got)
		}
	})
}
