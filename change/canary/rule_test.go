package canary

import (
	"math"
	"strings"
	"testing"
)

// The probability is that of the hypergeometric distribution; the first one is that of the lady who tasted tea.
func TestPValue(t *testing.T) {
	f := func(s, other Share, want float64) {
		t.Helper()
		if got := pValue(s, other); math.Abs(got-want) > 1e-6*want+1e-15 {
			t.Errorf("%v and %v: %g, want %g", s, other, got, want)
		}
	}
	f(Share{4, 4}, Share{0, 4}, 1.0/70)
	f(Share{3, 4}, Share{1, 4}, 17.0/70)
	f(Share{0, 50}, Share{0, 50}, 1)
	f(Share{0, 50}, Share{50, 50}, 1)
	f(Share{1, 20}, Share{0, 200}, 20.0/220)
	f(Share{2, 20}, Share{0, 20}, 19.0/78)
	if p := pValue(Share{500_000, 1_000_000}, Share{0, 1_000_000}); p > 1e-100 || math.IsNaN(p) {
		t.Errorf("of millions: %g", p)
	}
}

// A share has risen by more than two points and beyond chance, compared with each reference that has enough requests.
func TestRisen(t *testing.T) {
	f := func(now, before, peers Share, want bool) {
		t.Helper()
		counts := func(s Share) Counts { return Counts{Requests: s.All, Refused: s.Some} }
		r, got := Evidence{Now: counts(now), Before: counts(before), Peers: counts(peers)}.Risen()
		if got != want || got && r.Figure != Refused {
			t.Errorf("%v, before %v, peers %v: %v, want %v", now, before, peers, got, want)
		}
	}
	none := Share{}
	f(Share{400, 400}, Share{0, 400}, Share{0, 800}, true)
	f(Share{0, 400}, Share{0, 400}, Share{0, 800}, false)
	f(Share{19, 19}, Share{0, 400}, none, false) // too few
	f(Share{20, 20}, Share{0, 400}, none, true)
	f(Share{1, 20}, Share{0, 200}, none, false) // one failure is chance
	f(Share{4, 20}, Share{0, 200}, none, true)
	f(Share{1, 20}, Share{0, 100_000}, none, false)
	f(Share{4, 20}, Share{0, 20}, none, false) // few requests before say little
	f(Share{3, 30}, Share{0, 25}, none, false)
	f(Share{12, 20}, Share{0, 20}, none, true)
	f(Share{10, 20}, Share{0, 20}, none, true) // but a large rise is one
	f(Share{9, 30}, Share{0, 25}, none, true)
	f(Share{12, 40}, Share{0, 20}, none, true)
	f(Share{2, 20}, Share{0, 1000}, none, true)
	f(Share{32, 400}, Share{16, 400}, none, false)       // of many requests, chance has to be excluded more strictly
	f(Share{150, 10_000}, Share{0, 10_000}, none, false) // less than two points, and no chance
	f(Share{300, 10_000}, Share{0, 10_000}, none, true)
	f(Share{200, 400}, Share{0, 400}, Share{400, 800}, false)   // its peers have it too
	f(Share{200, 400}, Share{200, 400}, Share{0, 800}, false)   // it was so before
	f(Share{200, 400}, Share{0, 400}, Share{0, 3}, true)        // peers without requests say nothing
	f(Share{5, 100}, none, none, true)                          // without a reference
	f(Share{4, 100}, Share{0, 19}, Share{0, 19}, false)         // fewer than five
	f(Share{5, 250}, none, none, false)                         // no more than two points
	f(Share{41, 100}, Share{40, 10_000_000}, Share{0, 9}, true) // a large reference
}

// Each figure is judged by itself, and the text has the counts.
func TestRisenFigure(t *testing.T) {
	e := Evidence{Now: Counts{Requests: 100, Failed: 40, GaveUp: 1}, Before: Counts{Requests: 200, Failed: 1}}
	r, ok := e.Risen()
	if want := "failed: from 1 of 200 requests (0.5 %) before to 40 of 100 requests (40 %)"; !ok || r.String() != want {
		t.Errorf("%v %s", ok, r)
	}
	e = Evidence{Now: Counts{Requests: 100, GaveUp: 60}, Peers: Counts{Requests: 50, GaveUp: 1}}
	if r, ok := e.Risen(); !ok || r.Figure != GaveUp || !strings.HasSuffix(r.String(), "from no requests before to 60 of 100 requests (60 %), while its peers have 1 of 50 requests (2 %)") {
		t.Errorf("%v %s", ok, r)
	}
}

// The more nodes are judged side by side, the stricter each of them.
func TestRisenOfManyNodes(t *testing.T) {
	e := Evidence{Now: Counts{Requests: 40, Failed: 12}, Before: Counts{Requests: 20}}
	for nodes, want := range map[int]bool{0: true, 1: true, 2: true, 100: false} {
		e.Nodes = nodes
		if _, got := e.Risen(); got != want {
			t.Errorf("%d nodes: %v, want %v", nodes, got, want)
		}
	}
}

// There are enough requests to judge if a rise of ten points would be found in them.
func TestEnough(t *testing.T) {
	f := func(now int, before, peers Share, want bool) {
		t.Helper()
		e := Evidence{Now: Counts{Requests: now}, Before: Counts{Requests: before.All, Failed: before.Some}, Peers: Counts{Requests: peers.All, Failed: peers.Some}}
		if got := e.Enough(); got != want {
			t.Errorf("%d requests, before %v, peers %v: %v, want %v", now, before, peers, got, want)
		}
	}
	none := Share{}
	f(0, none, none, false)
	f(19, Share{0, 1000}, none, false)
	f(20, Share{0, 1000}, none, true)
	f(20, Share{0, 20}, none, false)
	f(10_000, Share{0, 20}, none, false) // however many there are since
	f(60, Share{0, 100}, none, true)
	f(40, none, none, false)
	f(41, none, none, true)
	f(400, Share{0, 400}, Share{0, 20}, false)
	f(400, Share{0, 400}, Share{0, 19}, true) // these do not count
	f(400, Share{0, 400}, Share{200, 400}, false)
	f(4000, Share{0, 4000}, Share{2000, 4000}, true)
	f(20, Share{190, 200}, none, false)
	f(400, Share{390, 400}, none, true) // no such rise is possible
	for n, want := range map[int]bool{0: false, 20: false, 40: false, 80: true, 1000: true} {
		if got := (Counts{Requests: n}).SufficeBefore(); got != want {
			t.Errorf("%d requests before: %v, want %v", n, got, want)
		}
	}
}
