package admission_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/permits"
)

const (
	autoURL      = "http://one:8000"
	autoEndpoint = "key: endpoints/ams/one\nurl: " + autoURL + "\nengine: vllm\n"
)

// playAuto runs f on a scenario whose endpoint one, of pool a, finds its limit from 4 to 64, beginning with the 16 of its
// engine.
func playAuto(t *testing.T, f func(s *scenario)) {
	t.Helper()
	play(t, func(s *scenario) {
		s.put(autoEndpoint + "pool: a\nconcurrency: auto\nauto: {min: 4, max: 64}\n")
		if e := s.pool("a").Stats().Endpoints[0]; e.Auto == nil || *e.Auto != (permits.AutoStats{Min: 4, Max: 64}) {
			t.Fatalf("to begin with: %+v, auto %+v", e, e.Auto)
		}
		s.wantLoad("a", 16, 16, "to begin with")
		f(s)
	})
}

// Many clients at an engine that has room for 20 requests: the manager finds that from when answers begin.
func TestManagerFindsALimit(t *testing.T) {
	playAuto(t, func(s *scenario) {
		a := s.pool("a")
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Minute)
		defer cancel()
		var clients sync.WaitGroup
		for range 60 {
			clients.Go(func() {
				for {
					g, err := acquire(a, ctx, waiting(time.Minute))
					if err != nil {
						return
					}
					took := 200*time.Millisecond + time.Duration(max(g.Held()-20, 0))*200*time.Millisecond
					time.Sleep(took)
					a.ObserveFirstByte(g, admission.FirstByte{Work: admission.Work{Input: 3000}, After: took, Token: true})
					time.Sleep(5 * time.Second)
					g.Release()
				}
			})
		}
		sum, n := 0, 0
		for range 1200 {
			time.Sleep(time.Second)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			e := a.Stats().Endpoints[0]
			if e.Concurrency < 4 || e.Concurrency > 64 || e.Auto == nil || e.Auto.Min != 4 || e.Auto.Max != 64 {
				t.Fatalf("got %+v", e)
			}
			sum, n = sum+a.Load().Limit, n+1
		}
		clients.Wait()
		if e := a.Stats().Endpoints[0]; e.Auto.Samples == 0 {
			t.Errorf("a limit without a sample: %+v", e.Auto)
		}
		if mean := float64(sum) / float64(n); mean < 17 || mean > 22 {
			t.Errorf("the limit was %.1f on average, want 20", mean)
		}
	})
}

// The limit that was found belongs to the engine: documents may move it, fix its limit for a time, and change its bounds.
func TestFoundLimitOutlivesDocuments(t *testing.T) {
	playAuto(t, func(s *scenario) {
		s.SetFoundLimit(autoURL, 30)
		f := func(document, pool string, want int) {
			t.Helper()
			s.put(document)
			if n := s.pool(pool).Load().Limit; n != want {
				t.Errorf("%q: %d slots, want %d", document, n, want)
			}
		}
		const auto = "concurrency: auto\nauto: {min: 4, max: 64}\n"
		f(autoEndpoint+"pool: a\nweight: 2\n"+auto, "a", 30)
		f(autoEndpoint+"pool: b\n"+auto, "b", 30)
		s.BeginLimitProbe(autoURL, 10)
		f(autoEndpoint+"pool: b\nconcurrency: 7\n", "b", 7)
		s.SetFoundLimit(autoURL, 9) // without effect: the document sets the limit
		f(autoEndpoint+"pool: b\n"+auto, "b", 30)
		f(autoEndpoint+"pool: b\nconcurrency: auto\nauto: {min: 2, max: 20}\n", "b", 20)
		f(autoEndpoint+"pool: b\nconcurrency: auto\nauto: {min: 40, max: 50}\n", "b", 40)
		f("---\nkey: defaults\nengines: {vllm: {concurrency: auto}}\n---\n"+autoEndpoint+"pool: b\n", "b", 40)
		s.documents.Delete("endpoints/ams/one", 2)
		f("key: endpoints/ams/renamed\nurl: "+autoURL+"\nengine: vllm\npool: a\n"+auto, "a", 40)
	})
}

// A limit that falls takes nothing from running requests, also across pools, and no slot above it is granted.
func TestFoundLimitFallsBelowWhatIsHeld(t *testing.T) {
	playAuto(t, func(s *scenario) {
		a := s.pool("a")
		var running []admission.Grant
		for range 16 {
			running = append(running, s.take("a"))
		}
		s.SetFoundLimit(autoURL, 6)
		for left := 16; left > 6; left-- {
			if _, err := tryTake(a); err == nil || a.Load().Held != left {
				t.Fatalf("granted with %d held and a limit of 6: %v", a.Load().Held, err)
			}
			running[left-1].Release()
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		s.SetFoundLimit(autoURL, 5)
		s.put(autoEndpoint + "pool: b\nconcurrency: auto\nauto: {min: 4, max: 64}\n")
		s.SetFoundLimit(autoURL, 8)
		s.wantLoad("b", 8, 2, "while 6 slots are held in the old pool")
		g := s.take("b")
		if g.Held() != 7 {
			t.Errorf("granted as the %dth slot, want the 7th", g.Held())
		}
		g.Release()
		for _, g := range running[:6] {
			g.Release()
		}
	})
}

func TestFullEngineLowersItsFoundLimit(t *testing.T) {
	playAuto(t, func(s *scenario) {
		var last admission.Grant
		for range 11 {
			last = s.take("a")
			defer last.Release()
		}
		s.pool("a").Full(last)
		time.Sleep(2 * admission.FullMarkDuration)
		if n := s.pool("a").Load().Limit; n != 9 {
			t.Errorf("an engine that was full with its eleventh request has %d slots, want 9", n)
		}
	})
}

// Where the document sets the number of slots, an engine that says that it is full keeps them.
func TestFullEngineKeepsTheLimitOfItsDocument(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("p", 5, "two"))
		p, g := s.pool("p"), s.take("p")
		p.Full(g)
		s.wantLoad("p", 5, 0, "right after the engine said that it is full")
		time.Sleep(2 * admission.FullMarkDuration)
		p.ObserveFirstByte(g, admission.FirstByte{After: time.Hour, Token: true})
		s.wantLoad("p", 5, 4, "a moment later")
		g.Release()
	})
}

// A limit probe ends after some minutes, also if no request comes.
func TestManagerEndsALimitProbe(t *testing.T) {
	playAuto(t, func(s *scenario) {
		s.BeginLimitProbe(autoURL, 8)
		s.wantLoad("a", 8, 8, "while the limit of 16 is lowered by 8")
		time.Sleep(admission.ProbeMaxDuration + time.Second)
		s.wantLoad("a", 16, 16, "after the probe")
	})
}

// BenchmarkGrant is what a grant costs whose endpoint's limit is in its document, and one whose limit is found.
func BenchmarkGrant(b *testing.B) {
	for _, c := range []struct{ name, concurrency string }{{"fixed", "16"}, {"auto", "auto\nauto: {min: 4, max: 64}"}} {
		b.Run(c.name, func(b *testing.B) {
			s := newScenario(b)
			s.put(autoEndpoint + "pool: a\nconcurrency: " + c.concurrency + "\n")
			a := s.pool("a")
			b.ReportAllocs()
			for b.Loop() {
				g, err := tryTake(a)
				if err != nil {
					b.Fatal(err)
				}
				a.ObserveFirstByte(g, admission.FirstByte{Work: admission.Work{Input: 3000}, After: 100 * time.Millisecond, Token: true})
				g.Release()
			}
		})
	}
}
