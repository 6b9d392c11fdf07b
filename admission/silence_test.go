package admission

import (
	"testing"
	"time"
)

const testSilence = 10 * time.Second

// listening lets time pass over the silence of an engine on which requests are held, in looks of a quarter of a second.
func (s *silence) listening(d time.Duration) {
	for ; d > 0; d -= listenInterval {
		s.passed(listenInterval, true, 0, testSilence)
	}
}

func TestSilenceNeedsBothChecksAndRequestsWithoutAnswer(t *testing.T) {
	var quiet silence
	quiet.listening(time.Hour)
	if quiet.silent {
		t.Error("silent though no health check has timed out")
	}
	var s silence
	s.listening(5 * time.Second)
	s.timedOut(2 * time.Second)
	s.listening(testSilence - 5*time.Second - listenInterval)
	if s.silent {
		t.Error("silent before its time")
	}
	s.listening(listenInterval)
	if !s.silent {
		t.Error("not silent after its time")
	}
	if want := "no byte to any request, and 1 health check timed out"; s.reason() != want {
		t.Errorf("reason %q, want %q", s.reason(), want)
	}
}

// A health check that has only just failed proves little, however long no byte was due.
func TestSilenceNeedsChecksWithoutAnswerForHalfOfIt(t *testing.T) {
	var s silence
	s.listening(time.Minute)
	s.timedOut(2 * time.Second)
	s.listening(testSilence/2 - 2*time.Second - listenInterval)
	if s.silent {
		t.Error("silent after the first health check that timed out")
	}
	s.listening(listenInterval)
	if !s.silent {
		t.Error("not silent though no health check was answered for half of the time")
	}
}

func TestAnySignOfLifeEndsSilence(t *testing.T) {
	var s silence
	for range 100 {
		s.listening(testSilence - listenInterval)
		s.timedOut(5 * time.Second)
		s.heard()
	}
	if s.silent {
		t.Error("silent though a byte came in time, each time")
	}
	s.listening(time.Second)
	s.timedOut(time.Second)
	s.listening(testSilence)
	if !s.silent {
		t.Fatal("not silent")
	}
	if s.heard(); s.silent || s.suspect() {
		t.Error("silent after a byte")
	}
}

func TestClientsThatGiveUpShortenSilence(t *testing.T) {
	reach := func(clients int) (d time.Duration) {
		var s silence
		s.listening(time.Second)
		s.timedOut(time.Second)
		for range clients {
			s.passed(0, true, 1, testSilence)
		}
		for d = time.Second; !s.silent; d += listenInterval {
			s.listening(listenInterval)
		}
		return d
	}
	if got := reach(clientsToSuspect - 1); got != testSilence {
		t.Errorf("with few clients silent after %s, want %s", got, testSilence)
	}
	if got := reach(clientsToSuspect); got != testSilence/2 {
		t.Errorf("after three clients gave up silent after %s, want %s", got, testSilence/2)
	}
}

// The health of an engine that gives no answer is checked long before its next check may be due, and once.
func TestSilentEngineIsCheckedAtHalfTime(t *testing.T) {
	checks := func(gaveUp int) (at []time.Duration) {
		var s silence
		for now := listenInterval; now <= 2*testSilence; now += listenInterval {
			if s.passed(listenInterval, true, gaveUp, testSilence) {
				at = append(at, now)
			}
			gaveUp = 0
		}
		return at
	}
	if at := checks(0); len(at) != 1 || at[0] != testSilence/2 {
		t.Errorf("checked after %v", at)
	}
	if at := checks(clientsToSuspect); len(at) != 1 || at[0] != listenInterval {
		t.Errorf("after three clients gave up, checked after %v", at)
	}
	var idle silence
	for range 1000 {
		if idle.passed(listenInterval, false, 0, testSilence) || idle.mute > 0 {
			t.Fatal("an engine without requests is not silent")
		}
	}
}

// Clients that leave an engine between two looks, one after the other, do not hide that it hangs.
func TestSilenceGoesOnBetweenRequests(t *testing.T) {
	var s silence
	for i := range 40 {
		if s.passed(listenInterval, i%3 == 0, 0, testSilence); i == 8 {
			s.timedOut(time.Second)
		}
	}
	if !s.silent {
		t.Error("not silent")
	}
}

// A node that was stopped for an hour could not hear its engines.
func TestSilenceCountsOnlyTimeInWhichTheNodeRan(t *testing.T) {
	var s silence
	s.passed(listenInterval, true, 0, testSilence)
	s.timedOut(time.Second)
	s.passed(time.Hour, true, 0, testSilence)
	if s.silent || s.mute > 2*maxListenGap {
		t.Errorf("silent: %v, for %s", s.silent, s.mute)
	}
}
