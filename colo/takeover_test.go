package colo

import (
	"net/http"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/homes"
	"colonnade/internal/testkit"
	"colonnade/permits"
)

// learn makes the server know the mean hold of pool p.
func (s *homeServer) learn(millis float64) {
	s.t.Helper()
	s.pools.Adopt("p", &admission.Learned{Permits: permits.Learned{Released: 99, HeldMillis: millis}}, 0)
}

func (s *homeServer) meanHeld() float64 {
	p, _ := s.pools.Pool("p")
	if mean := p.Stats().MeanHeldMillis; mean != nil {
		return *mean
	}
	return 0
}

// A home, and a server that was one a moment ago, answer what they have learned of a pool to servers of their colo only.
func TestLearnedIsAnswered(t *testing.T) {
	s := startHomeServer(t, Home{Here: true})
	c := s.client("ams-2", nil)
	ask := func(colo, pool string) (*admission.Learned, error) {
		to := s.server()
		to.Colo = colo
		text, err := c.Learned(t.Context(), to, pool, admission.MaxLearned)
		if err != nil {
			return nil, err
		}
		return admission.DecodeLearned(text)
	}
	s.begunHomes()
	if l, err := ask("ams", "p"); err == nil {
		t.Errorf("a home that has learned nothing says %+v", l)
	}
	s.learn(1234)
	for _, when := range []string{"as the home", "as the home before"} {
		if l, err := ask("ams", "p"); err != nil || l.Permits.HeldMillis != 1234 || l.Age() > time.Minute {
			t.Errorf("%s: %+v, %v", when, l, err)
		}
		s.move()
		s.begunHomes()
	}
	if _, err := ask("ams", "none"); err == nil {
		t.Error("an answer for a pool that does not exist")
	}
	if _, err := ask("fra", "p"); err == nil {
		t.Error("an answer to a server of another colo")
	}
	answer, err := s.signedGet(hop.PathLearned + "?pool=p")
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusForbidden {
		t.Errorf("an entry gets %d", answer.StatusCode)
	}
	s.takeovers.ceased["p"] = time.Now().Add(-2 * admission.MaxLearnedAge)
	if l, err := ask("ams", "p"); err == nil {
		t.Errorf("figures that are too old are answered: %+v", l)
	}
}

// A server that ends serves until the next home of its pools has what it has learned, also if nothing else keeps it.
func TestShutdownTellsWhatWasLearned(t *testing.T) {
	s := startHomeServer(t, Home{Here: true})
	s.begunHomes()
	s.learn(1234)
	s.move()
	s.down = true
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context(), server.DrainTimings{Notice: testkit.Timeout}) }()
	testkit.WaitFor(t, "the drain", s.Draining)
	time.Sleep(50 * time.Millisecond)                  // a drain that does not wait ends meanwhile
	for _, other := range []string{"ams-3", "ams-2"} { // the next home is ams-2
		if !s.awaitsQuestion() {
			t.Errorf("ams-2 is not awaited, before %s has asked", other)
		}
		if text, err := s.client(other, nil).Learned(t.Context(), s.server(), "p", admission.MaxLearned); err != nil || len(text) == 0 {
			t.Errorf("%s: %s, %v", other, text, err)
		}
		_, _ = s.client(other, nil).Learned(t.Context(), s.server(), "mute", admission.MaxLearned)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The next home of a pool begins with its copy of what was learned, if the home before was killed, unless the copy is too old.
func TestCopyIsTakenOver(t *testing.T) {
	f := func(age time.Duration, want float64) {
		t.Helper()
		s := startHomeServer(t, elsewhere())
		s.move()
		s.begunHomes()
		l := &admission.Learned{Permits: permits.Learned{Released: 99, HeldMillis: 1234}}
		s.takeovers.copies["p"] = learnedCopy{l, time.Now().Add(-age)}
		s.at.Store(&Home{Here: true})
		s.pools.SetGrants(&homes.Grants{})
		begun := s.begunHomes()
		if begun["p"] != "ams-2" || len(s.begunHomes()) > 0 {
			t.Fatalf("homes that have begun here: %v", begun)
		}
		s.takeOver(t.Context(), "p", begun["p"])
		if got := s.meanHeld(); got != want {
			t.Errorf("with a copy of %v ago, the mean hold is %v ms, want %v", age, got, want)
		}
	}
	f(5*time.Second, 1234)
	f(2*admission.MaxLearnedAge, 0)
}

// A copy that took long is not made again at the next interval.
func TestCopiesTakeLittleTime(t *testing.T) {
	s := startHomeServer(t, elsewhere())
	took := func(took time.Duration) bool {
		s.takeovers.keep("p", learnedCopy{}, time.Now().Add(copyShare*took-copyInterval))
		return s.takeovers.isDue("p")
	}
	if !took(50*time.Millisecond) || took(time.Second) {
		t.Error("the next copy is made too late, or too early")
	}
}
