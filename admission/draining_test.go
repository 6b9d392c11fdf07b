package admission_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
)

const twoEndpoints = "key: pools/a\n---\nkey: endpoints/ams/one\nurl: http://one:8000\npool: a\nconcurrency: 2\n" +
	"---\nkey: endpoints/ams/two\nurl: http://two:8000\npool: a\nconcurrency: 2\n"

const drainOne = "key: endpoints/ams/one\nurl: http://one:8000\npool: a\nconcurrency: 2\nstate: draining\n"

// stateOf returns the state of the endpoint at a URL of pool a.
func (s *scenario) stateOf(url string) (state string, held int) {
	for _, e := range s.pool("a").Stats().Endpoints {
		if e.URL == url {
			return e.State, e.Held
		}
	}
	return "", 0
}

// An endpoint that drains keeps what it has, gets nothing new, is still checked, and gives all its slots back at the end of the drain.
func TestEndpointDrains(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(twoEndpoints)
		synctest.Wait()
		var grants []admission.Grant
		for range 4 {
			grants = append(grants, s.take("a"))
		}
		s.put(drainOne)
		s.wantLoad("a", 2, 0, "while one of two drains")
		if state, held := s.stateOf("http://one:8000"); state != "draining" || held != 2 {
			t.Errorf("the endpoint that drains is %s and holds %d", state, held)
		}
		for _, g := range grants {
			g.Release()
		}
		for range 2 {
			g := s.take("a")
			if g.Endpoint.ID != "two" {
				t.Errorf("a new permit is on %s", g.Endpoint.ID)
			}
			defer g.Release()
		}
		s.setHealth("one", errors.New("stopped for maintenance"))
		time.Sleep(time.Minute)
		s.put(twoEndpoints)
		if state, _ := s.stateOf("http://one:8000"); state != "down" {
			t.Errorf("an engine that failed its health checks during the drain is %s after it", state)
		}
		s.setHealth("one", nil)
		time.Sleep(time.Minute)
		s.wantLoad("a", 4, 2, "after the drain")
	})
}

// The last endpoint that serves is never ejected, also while another one drains.
func TestDrainLeavesTheLastEndpoint(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(twoEndpoints)
		synctest.Wait()
		s.put(drainOne)
		g := s.take("a")
		for range 2 * admission.FailuresToEject {
			s.pool("a").Failed(g.Endpoint, "reset")
		}
		g.Release()
		s.wantLoad("a", 2, 2, "after many failures")
	})
}

// A drain changes nothing about the limit that was found for an engine.
func TestDrainKeepsTheFoundLimit(t *testing.T) {
	playAuto(t, func(s *scenario) {
		s.SetFoundLimit(autoURL, 40)
		var grants []admission.Grant
		for range 40 {
			grants = append(grants, s.take("a"))
		}
		const document = autoEndpoint + "pool: a\nconcurrency: auto\nauto: {min: 4, max: 64}\n"
		s.put(document + "state: draining\n")
		for _, g := range grants { // what an engine does as it empties, or is stopped, says nothing of its limit
			s.pool("a").ObserveFirstByte(g, admission.FirstByte{Work: admission.Work{Input: 3000}, After: 5 * time.Second, Token: true})
			s.pool("a").Full(g)
			g.Release()
		}
		s.wantLoad("a", 0, 0, "while it drains")
		time.Sleep(time.Minute)
		s.put(document)
		s.wantLoad("a", 40, 40, "after the drain")
	})
}
