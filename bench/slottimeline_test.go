package bench

import (
	"testing"
)

// Of two slots, one becomes free at 20 and is taken at once; the other becomes free at 30 and is taken after 2 ms.
func TestPassedOver(t *testing.T) {
	jobs := []job{{id: 1, held: interval{at(0), at(20)}}, {id: 2, held: interval{at(0), at(30)}},
		{id: 3, held: interval{at(20), at(60)}}, {id: 4, held: interval{at(32), at(62)}}, {id: 5, held: interval{at(60), at(90)}}}
	f := func(id uint64, due int, other uint64, sent int, want bool) {
		t.Helper()
		samples := []sample{{id: other, sent: at(sent)}, {id: id, sent: at(due), due: at(due)}}
		r := resultOf(2, trial{flows: []flow{{account: "a"}}}, samples, jobs...)
		if got := r.slotTimeline().passedOver(r.job(&r.samples[1][0]), at(due)); got != want {
			t.Errorf("request %d, due at %d, beside request %d, sent at %d: passed over is %v", id, due, other, sent, got)
		}
	}
	f(4, 5, 3, 6, true)    // the third came later, and has the slot that became free at 20
	f(4, 15, 3, 14, false) // the third came earlier, and may have been given that slot already
	f(4, 25, 3, 6, false)  // it has the next
	f(5, 35, 4, 30, false)
	f(5, 25, 4, 26, true) // the fourth came between
	r := resultOf(2, trial{window: interval{0, at(50)}}, nil, jobs...)
	if every, empty := r.turnover(); every != 25 || empty != 2 {
		t.Errorf("a slot becomes free every %v ms and is empty for %v ms, want 25 and 2", every, empty)
	}
}

// Two slots; jobs hold them from 0 to 10 and from 5 to 20, then from 12 to 30.
func TestFirstFree(t *testing.T) {
	r := &result{
		slots: 2, trial: &trial{flows: []flow{{account: "a"}}},
		jobs: []job{{id: 1, held: interval{at(0), at(10)}}, {id: 2, held: interval{at(5), at(20)}},
			{id: 3, held: interval{at(12), at(30)}}},
		// The third was in transit, since 8, when the first left its slot.
		samples: [][]sample{{{id: 1, sent: at(0)}}, {{id: 2, sent: at(5)}}, {{id: 3, sent: at(8)}},
			{{id: 4, sent: at(11)}}},
	}
	r.prepare()
	timeline := r.slotTimeline()
	f := func(asked, want int) {
		t.Helper()
		if got := timeline.firstFree(4, at(asked), exemptions{}); got != at(want) {
			t.Errorf("asked at %d: the first free slot is at %v, want %d", asked, got, want)
		}
	}
	f(1, 1)   // one is free
	f(6, 10)  // both are taken
	f(11, 20) // one is free, but given to the third, in transit
	f(15, 20)
	f(25, 25)
	f(40, 40)
	if got := timeline.firstFree(4, at(6), exemptions{peers: map[uint64]bool{3: true}}); got != at(20) {
		t.Errorf("behind the third, a peer: %v, want 20ms", got)
	}
	if got := timeline.firstFree(4, at(11), exemptions{peers: map[uint64]bool{3: true}}); got != at(20) {
		t.Errorf("behind the third, a peer that was given its slot before: %v, want 20ms", got)
	}
	if got := timeline.firstFree(4, at(9), exemptions{transit: at(2)}); got != at(20) {
		t.Errorf("in transit when one became free: %v, want 20ms", got)
	}
	if got := timeline.firstFree(4, at(4), exemptions{}); got != at(4) {
		t.Errorf("one is free: %v, want 4ms", got)
	}
	if got := timeline.firstFree(3, at(8), exemptions{}); got != at(10) {
		t.Errorf("the third: %v, want 10ms", got)
	}
	if got := timeline.firstFree(3, at(11), exemptions{}); got != at(11) {
		t.Errorf("the third does not wait for itself: %v, want 11ms", got)
	}
}
