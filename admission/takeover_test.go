package admission_test

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/fairqueue"
	"colonnade/homes"
)

const autoEngines = "key: endpoints/ams/one\nurl: http://one:8000\npool: a\nconcurrency: auto\nauto: {min: 4, max: 64}\n" +
	"---\nkey: endpoints/ams/two\nurl: http://two:8000\npool: a\nconcurrency: 4\n"

// passOn returns what was learned as another server gets it.
func passOn(t testing.TB, l *admission.Learned) *admission.Learned {
	t.Helper()
	if l == nil {
		t.Fatal("nothing was learned")
	}
	l, err := admission.DecodeLearned(l.Encode(admission.MaxLearned))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Figures of engines and of times to first token move to the next home, also if that may not grant yet.
func TestLearnedMoves(t *testing.T) {
	for _, when := range []string{"before the grants", "after the grants"} {
		var l *admission.Learned
		work := admission.Work{Model: "m", Path: "/v1/chat/completions", Input: 100}
		play(t, func(s *scenario) {
			s.put(autoEngines)
			for range 2 * admission.MinSamples {
				g := s.take("a")
				time.Sleep(time.Second / 4)
				s.pool("a").ObserveFirstByte(g, admission.FirstByte{Work: work, After: time.Second, Token: true})
				g.Release()
			}
			s.SetFoundLimit("http://one:8000", 17)
			for range admission.FailuresToEject {
				s.pool("a").Failed(s.endpoint("two"), "it broke")
			}
			s.SetGrants(grants()) // as a home that hands the pool over
			l = passOn(t, s.Learned("a"))
		})
		play(t, func(s *scenario) {
			s.setHealth("two", errHangs) // or its first check, which comes at once, may have brought it back
			s.SetGrants(grants())
			s.put(autoEngines)
			adopt := func() { s.Adopt("a", l, time.Second) }
			if when == "before the grants" {
				adopt()
			}
			s.SetGrants(&homes.Grants{Engines: grants("one", "two").Engines})
			if when == "after the grants" {
				adopt()
			}
			if got := s.Limits(); !maps.Equal(got, map[string]int{"http://one:8000": 17}) {
				t.Errorf("%s: limits found: %v", when, got)
			}
			p := s.pool("a").DetailedStats(9)
			if state := p.Endpoints[1]; state.State != "ejected" || state.Reason != "it broke" {
				t.Errorf("%s: %+v, want it ejected until it is checked", when, state.Health)
			}
			if p.MeanHeldMillis == nil || *p.MeanHeldMillis != 250 || len(p.MinTTFT) != 1 || p.MinTTFT[0].Millis != 1000 {
				t.Errorf("%s: mean hold %v, times to first token %+v", when, p.MeanHeldMillis, p.MinTTFT)
			}
		})
	}
}

// The limit from another server stays within the bounds of the document, and impossible values and old ones are not taken over.
func TestLearnedIsBounded(t *testing.T) {
	f := func(want int, age time.Duration, auto admission.AutoLearned) {
		t.Helper()
		play(t, func(s *scenario) {
			s.put(autoEngines)
			s.Adopt("a", &admission.Learned{Engines: []admission.EngineLearned{
				{URL: "http://one:8000", Auto: &auto}, {URL: "http://none:1", Auto: &auto}, {URL: "http://two:8000", Auto: &auto},
			}, TTFT: []admission.TTFTLearned{{Model: "m", N: 99, Least: -1}, {Model: "m", N: 99, Least: math.NaN()}}}, age)
			if got := s.pool("a").DetailedStats(0); got.Endpoints[0].Concurrency != want || got.Endpoints[1].Concurrency != 4 || len(got.MinTTFT) > 0 {
				t.Errorf("%+v: limits %d and %d, want %d and 4; times %+v", auto, got.Endpoints[0].Concurrency, got.Endpoints[1].Concurrency, want, got.MinTTFT)
			}
		})
	}
	averages := []admission.AverageLearned{{Size: -1, N: 1}, {Size: 99, N: 1}, {Size: 1, N: 1 << 40, Mean: math.Inf(1)}}
	f(17, 0, admission.AutoLearned{Limit: 17, Samples: 5, Averages: averages})
	f(64, 0, admission.AutoLearned{Limit: 1e300, Samples: 5})
	f(4, 0, admission.AutoLearned{Limit: 1, Samples: 5})
	for _, limit := range []float64{0, -7, math.NaN(), math.Inf(1)} {
		f(8, 0, admission.AutoLearned{Limit: limit, Samples: 5})
	}
	f(8, 0, admission.AutoLearned{Limit: 17})
	f(8, 2*admission.MaxLearnedAge, admission.AutoLearned{Limit: 17, Samples: 5})
	f(8, -1, admission.AutoLearned{Limit: 17, Samples: 5})
}

// However much there is, the JSON has at most MaxLearned bytes.
func TestLearnedFits(t *testing.T) {
	l := &admission.Learned{}
	for range 1024 {
		l.Engines = append(l.Engines, admission.EngineLearned{URL: strings.Repeat("u", 200)})
		l.TTFT = append(l.TTFT, admission.TTFTLearned{Model: strings.Repeat("m", 200)})
		l.Permits.Accounts = append(l.Permits.Accounts, fairqueue.AccountCosts{Account: strings.Repeat("a", 200)})
	}
	if got := passOn(t, l); len(got.Engines) == 0 || len(got.TTFT) == 0 || len(got.Permits.Accounts) == 0 {
		t.Error("a list is lost")
	}
	if len(l.Engines) != 1024 {
		t.Error("Encode has changed what was learned")
	}
}

// Any bytes are either no Learned, or can be taken over, passed on and taken over again.
func FuzzLearned(f *testing.F) {
	f.Add([]byte(`{"version":1,"age_ms":5,"later":{},"permits":{"released":99,"mean_held_ms":5,"cost":"tokens"},"engines":[{"url":"http://one:8000",` +
		`"state":"down","auto":{"limit":9,"samples":3,"averages":[{"size":3,"n":4,"mean":-1}]}}],"ttft":[{"model":"m","n":20,"least_ns":1e9}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"age_ms":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := admission.DecodeLearned(text)
		if err != nil {
			return
		}
		play(t, func(s *scenario) {
			s.put(autoEngines)
			s.Adopt("a", l, l.Age())
			if again := l.Encode(admission.MaxLearned); len(again) > admission.MaxLearned || !json.Valid(again) {
				t.Errorf("%d bytes are passed on", len(again))
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
			_ = s.pool("a").DetailedStats(9)
			if own := s.Learned("a"); own != nil {
				passOn(t, own)
			}
		})
	})
}
