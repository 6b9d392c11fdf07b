package entry

import (
	"testing"
	"time"
)

// How many slots a pool has in a colo is what its last answer has said.
func TestSlotsAreTheLastHeard(t *testing.T) {
	o := newObservations()
	at := poolIn{"p", "ams"}
	f := func(said string, want int) {
		t.Helper()
		o.note(at, said, time.Now())
		if n := o.slotsOf(at); n != want {
			t.Errorf("after %q: %d slots, want %d", said, n, want)
		}
	}
	f("", 0)
	f("free=0;held=3;limit=3;queued=9", 3)
	f("free=1;held=3;limit=4;queued=0", 4)
	f("nothing", 4)
	f("free=0;held=0;limit=0;queued=0", -1)
	if n := o.slotsOf(poolIn{"p", "fra"}); n != 0 {
		t.Errorf("of another colo: %d", n)
	}
}
