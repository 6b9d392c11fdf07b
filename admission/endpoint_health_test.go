package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
)

var errRefused = errors.New("connection refused")

// endpoint returns an endpoint by its document.
func (s *scenario) endpoint(id string) *fleet.Endpoint {
	s.Helper()
	all := s.documents.Table().EndpointsOf("ams")
	i := slices.IndexFunc(all, func(e *fleet.Endpoint) bool { return e.ID == id })
	if i < 0 {
		s.Fatalf("no endpoint %s", id)
	}
	return all[i]
}

// fail reports as many failed requests to an endpoint as eject it.
func (s *scenario) fail(pool, id string) {
	for range admission.FailuresToEject {
		s.pool(pool).Failed(s.endpoint(id), "reset")
	}
}

func TestFailingEndpointIsEjectedAndReadmitted(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		s.fail("a", "one")
		s.fail("a", "two")
		s.wantLoad("a", 1, 1, "half of a pool may be ejected, and no more")
		time.Sleep(2 * admission.MinEjection)
		s.wantLoad("a", 2, 2, "after the ejection and a health check that succeeded")
	})
}

// A refused connection ejects at once, again within the bound of half of the pool, and for a second however often it happens.
func TestRefusingEndpointIsEjectedAtOnce(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		for range 10 {
			s.pool("a").Refused(s.endpoint("one"), "connection refused")
			s.pool("a").Refused(s.endpoint("two"), "connection refused")
			s.wantLoad("a", 1, 1, "half of a pool may be ejected, and no more")
			time.Sleep(2 * admission.MinEjection)
			s.wantLoad("a", 2, 2, "after the ejection and a health check that succeeded")
		}
	})
}

// An endpoint that refuses a connection is checked soon, whatever its interval: two failed checks take it down, also the last one of its
// pool, and it returns soon after it answers again.
func TestRefusingEndpointIsCheckedSoon(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one") + "health: {interval: 1h}\n")
		synctest.Wait()
		s.setHealth("one", errRefused)
		s.pool("a").Refused(s.endpoint("one"), "connection refused")
		s.wantLoad("a", 1, 1, "the only endpoint is not ejected")
		time.Sleep(time.Second)
		s.wantLoad("a", 0, 0, "after two failed checks")
		s.setHealth("one", nil)
		time.Sleep(time.Second)
		s.wantLoad("a", 1, 1, "a second after it began to answer")
	})
}

// When the good half of a pool is taken away, the ejected half is all there is.
func TestEjectionIsCappedWhenThePoolShrinks(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		s.fail("a", "one")
		s.wantLoad("a", 1, 1, "with one of two ejected")
		s.remove("endpoints/ams/two")
		s.wantLoad("a", 1, 1, "with the ejected one alone")
	})
}

func TestHealthChecksTakeAnEndpointDownAndUp(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		s.setHealth("one", errRefused)
		time.Sleep(time.Minute)
		if _, err := tryTake(s.pool("a")); err == nil {
			t.Error("a permit for an endpoint that is down")
		}
		if e := s.pool("a").Stats().Endpoints[0]; e.State != "down" || e.Reason != errRefused.Error() {
			t.Errorf("the endpoint is %s because of %q", e.State, e.Reason)
		}
		s.setHealth("one", nil)
		time.Sleep(time.Minute)
		s.take("a").Release()
	})
}

// The first health check finds an engine that does not answer, and one soon after finds that it does.
func TestNewEndpointIsCheckedAtOnce(t *testing.T) {
	play(t, func(s *scenario) {
		s.setHealth("two", errRefused)
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		s.wantLoad("a", 1, 1, "one of two engines does not answer")
		s.setHealth("two", nil)
		time.Sleep(1200 * time.Millisecond)
		s.wantLoad("a", 2, 2, "a second after it began to answer")
	})
}

// An endpoint that was down only because of a wrong health path is up as soon as the path is corrected.
func TestChangedHealthCheckIsMadeAtOnce(t *testing.T) {
	play(t, func(s *scenario) {
		document := func(path string) string {
			return endpoints("a", 1, "one") + "health: {interval: 1h, path: " + path + "}\n"
		}
		s.setHealth("/wrong", errRefused)
		s.put(document("/right"))
		time.Sleep(time.Second)
		s.put(document("/wrong"))
		time.Sleep(3 * time.Hour)
		s.wantLoad("a", 0, 0, "with a wrong path")
		s.put(document("/right"))
		time.Sleep(time.Second)
		s.wantLoad("a", 1, 1, "a second after the path was corrected")
	})
}

// An engine that works may answer its health check late without being taken out, as long as it sends anything to any request.
func TestLateHealthCheckOfABusyEngine(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one"))
		g := s.take("a")
		s.setHealth("one", context.DeadlineExceeded)
		for range 12 {
			g.Received().Store(true)
			time.Sleep(5 * time.Second)
			s.wantLoad("a", 2, 1, "busy and late")
		}
		g.Release()
		time.Sleep(time.Minute)
		s.wantLoad("a", 0, 0, "idle and late")
	})
}

// A health check that was not made changes nothing, for good or ill.
func TestHealthCheckThatWasNotMade(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one"))
		s.setHealth("one", fmt.Errorf("%w: too many open files", admission.ErrNotChecked))
		time.Sleep(time.Minute)
		s.wantLoad("a", 2, 2, "of an endpoint that was up")
		s.setHealth("one", errRefused)
		time.Sleep(time.Minute)
		s.setHealth("one", admission.ErrNotChecked)
		time.Sleep(time.Minute)
		s.wantLoad("a", 0, 0, "of an endpoint that was down")
	})
}

// An endpoint whose lease has expired is used while it is healthy, and is dead when its health checks fail too.
func TestDeadEndpoints(t *testing.T) {
	play(t, func(s *scenario) {
		table := s.table(endpoints("a", 2, "one", "two", "three"))
		table.ExpiredLeases = []string{"endpoints/ams/one", "endpoints/ams/two"}
		s.Apply(table)
		want := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			got := s.DeadEndpoints()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("dead: %q, want %q", got, want)
			}
		}
		want()
		s.wantLoad("a", 6, 6, "with expired leases")
		s.setHealth("one", errRefused)
		s.setHealth("three", errRefused)
		want("endpoints/ams/one")
		s.setHealth("one", nil)
		want()
		s.setHealth("two", errRefused)
		want("endpoints/ams/two")
		s.put(endpoints("a", 2, "one", "two", "three")) // registered again
		want()
	})
}

// One failed health check takes a new endpoint down, but its document stays until a second fails.
func TestOneFailedCheckDoesNotMakeAnEndpointDead(t *testing.T) {
	play(t, func(s *scenario) {
		s.setHealth("one", errRefused)
		table := s.table(endpoints("a", 2, "one"))
		table.ExpiredLeases = []string{"endpoints/ams/one"}
		s.Apply(table)
		synctest.Wait()
		s.wantLoad("a", 0, 0, "after one failed check")
		if keys := s.DeadEndpoints(); len(keys) > 0 {
			t.Errorf("dead after one failed check: %q", keys)
		}
		time.Sleep(2 * time.Second)
		if keys := s.DeadEndpoints(); len(keys) != 1 {
			t.Errorf("dead after two: %q", keys)
		}
	})
}
