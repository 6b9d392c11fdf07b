package admission_test

import (
	"errors"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/permits"
)

var chat = admission.Work{Model: "m", Path: "/v1/chat/completions", Streamed: true, Input: 400}

// observe reports that n answers took so long to begin.
func observe(p *admission.Pool, n int, w admission.Work, took time.Duration) {
	for range n {
		p.ObserveFirstByte(admission.Grant{Endpoint: &fleet.Endpoint{}}, admission.FirstByte{Work: w, After: took})
	}
}

// A request that would be too late is refused at once; one that may wait leaves when it could no longer be served in time;
// and one that can be served in time is.
func TestRequestsThatCannotBeServedInTime(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/a\nqueue: {limit: 9, max_wait: 60s}\n---\n" + endpoints("a", 1, "one"))
		a := s.pool("a")
		ask := func(within time.Duration) (admission.Grant, error) {
			r := waiting(time.Minute)
			r.Deadline = a.LatestStart(time.Now(), time.Now().Add(within), chat)
			return acquire(a, s.Context(), r)
		}
		refused := func(within, after time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := ask(within)
			var refusal *permits.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != permits.Deadline || refusal.RetryAfter < time.Second {
				t.Fatalf("first byte within %v: %v, want refused for its deadline", within, err)
			}
			if d := time.Since(began); d != after {
				t.Errorf("first byte within %v: refused after %v, want %v", within, d, after)
			}
		}
		granted := func(within time.Duration) admission.Grant {
			t.Helper()
			g, err := ask(within)
			if err != nil {
				t.Fatalf("first byte within %v: %v, want a grant", within, err)
			}
			return g
		}
		granted(10 * time.Millisecond).Release()
		observe(a, admission.MinSamples, chat, 50*time.Millisecond)
		refused(50*time.Millisecond, 0)
		g := granted(51 * time.Millisecond)
		refused(80*time.Millisecond, 30*time.Millisecond)
		time.AfterFunc(30*time.Millisecond, func() { g.Release() })
		granted(81 * time.Millisecond).Release()

		for _, other := range []admission.Work{
			{Model: "other", Path: chat.Path, Streamed: true}, {Model: chat.Model, Path: "/v1/embeddings", Streamed: true},
			{Model: chat.Model, Path: chat.Path},
		} {
			observe(a, admission.MinSamples, other, time.Millisecond)
		}
		refused(50*time.Millisecond, 0)
		granted(51 * time.Millisecond).Release()

		time.Sleep(2 * admission.WindowLen)
		granted(10 * time.Millisecond).Release() // the samples are too old: it is tried again
	})
}

// The bound can be wrong for a request that is unlike all others. One in each window is tried, and if it is served in time,
// so are all that follow.
func TestRequestsThatSeemTooLateAreTried(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		a := s.pool("a")
		late := func() bool {
			return !a.LatestStart(time.Now(), time.Now().Add(20*time.Millisecond), chat).After(time.Now())
		}
		served := func(lasts time.Duration) {
			for range int(lasts / (100 * time.Millisecond)) {
				observe(a, 1, chat, 50*time.Millisecond)
				time.Sleep(100 * time.Millisecond)
			}
		}
		served(10 * time.Second)
		tried := 0
		for range 100 {
			served(time.Second)
			if a.LatestStart(time.Now(), time.Now(), chat).After(time.Now()) {
				t.Fatal("a request without any time left is tried")
			}
			for range 10 {
				if !late() {
					tried++
				}
			}
		}
		if tried < 9 || tried > 11 {
			t.Errorf("%d were tried in 100 s, want one in 10 s", tried)
		}
		observe(a, 1, chat, 5*time.Millisecond) // the last that was tried: it was not too late
		for range 9 {
			if served(time.Second); late() {
				t.Error("refused, although one like it was served")
			}
		}
	})
}

// An answer that was not waited for sets no bound, and one without a token is no sample for the limit.
func TestAnswersThatSetNoBound(t *testing.T) {
	playAuto(t, func(s *scenario) {
		a, g := s.pool("a"), s.take("a")
		defer g.Release()
		by := time.Now().Add(time.Minute)
		for range 2 * admission.MinSamples {
			a.ObserveFirstByte(g, admission.FirstByte{Work: chat, After: 30 * time.Second, Censored: true, Token: true})
		}
		if got := a.LatestStart(time.Now(), by, chat); !got.Equal(by) {
			t.Errorf("after answers that were not waited for: %v of the minute are left", time.Until(got))
		}
		samples := a.Stats().Endpoints[0].Auto.Samples
		for range 2 * admission.MinSamples {
			a.ObserveFirstByte(g, admission.FirstByte{Work: chat, After: 30 * time.Second})
		}
		if got := a.Stats().Endpoints[0].Auto.Samples; got != samples {
			t.Errorf("%d samples for the limit from answers without a token, want none", got-samples)
		}
		if got := a.LatestStart(time.Now(), by, chat); !got.Equal(by.Add(-30 * time.Second)) {
			t.Errorf("after whole answers: %v of the minute are left, want 30s", time.Until(got))
		}
	})
}
