package admission_test

import (
	"testing"

	"colonnade/admission"
)

// A request gets a permit, succeeds and ends while a table is applied, which takes many milliseconds with thousands of endpoints.
func TestRequestWhileATableIsApplied(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		p := s.pool("a")
		p.Succeeded(s.endpoint("one")) // what the engine answers from now on is nothing new
		s.WhileApplying(func() {
			g := s.take("a") // which looks the pool up, too
			p.Succeeded(g.Endpoint)
			g.Release()
		})
	})
}

// A success ends a row of failures, also when an earlier one was nothing new.
func TestSuccessEndsARowOfFailures(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two", "three"))
		p, e := s.pool("a"), s.endpoint("one")
		for range 3 {
			p.Succeeded(e)
			p.Succeeded(e)
			for range admission.FailuresToEject - 1 {
				p.Failed(e, "reset")
			}
		}
		s.wantLoad("a", 3, 3, "after failures that were not in a row")
		p.Failed(e, "reset")
		s.wantLoad("a", 2, 2, "after as many in a row")
	})
}
