package ship

import (
	"bytes"
	"fmt"
	"testing"
)

// Work on a batch lets others have the processor again and again.
func TestWorkOnBatchPauses(t *testing.T) {
	const events = 1000
	b := &Batch{Node: "ams-1"}
	for i := range events {
		b.add(fmt.Appendf(nil, `{"event_id":"%d","model":"%s"}`, i, bytes.Repeat([]byte("m"), 500)))
	}
	f := func(what string, least int, work func()) {
		t.Helper()
		pauses := 0
		b.pause = func() { pauses++ }
		if work(); pauses < least {
			t.Errorf("%s: %d pauses, want %d", what, pauses, least)
		}
	}
	f("pieces", len(b.NDJSON())/PieceBytes, func() {
		var all []byte
		for piece := range b.Pieces() {
			all = append(all, piece...)
		}
		if !bytes.Equal(all, b.NDJSON()) {
			t.Errorf("the pieces are %d bytes, and differ", len(all))
		}
	})
	f("events", events/PieceEvents, func() {
		if all, err := b.Events(); err != nil || len(all) != events || all[events-1].EventID != "999" {
			t.Errorf("%d events, %v", len(all), err)
		}
	})
}

// The id is that of the events and of the place where they begin, however the batch was filled.
func TestIDOfBatchThatIsFilledAgain(t *testing.T) {
	b := &Batch{Node: "ams-1"}
	f := func(step, first string, lines ...string) {
		t.Helper()
		b.First = first
		same := &Batch{Node: "ams-1", First: first}
		for _, line := range lines {
			same.add([]byte(line))
		}
		if b.ID() != same.ID() {
			t.Errorf("%s: the id is %s, that of the same events %s", step, b.ID(), same.ID())
		}
	}
	b.add([]byte("a"))
	f("the first", "main1-1", "a")
	b.add([]byte("b"))
	f("with a line more", "main1-1", "a", "b")
	b.reset()
	f("without lines", "")
	b.add([]byte("c"))
	b.add([]byte("d"))
	f("filled again", "main1-3", "c", "d")
	ids := map[string]bool{b.ID(): true}
	for name, other := range map[string]*Batch{
		"a part": b.part(1, 2), "less": NewBatch("ams-1", "main1-3", []byte("c")), "other events": NewBatch("ams-1", "main1-3", []byte("c"), []byte("e")),
		"elsewhere": NewBatch("ams-1", "main1-5", []byte("c"), []byte("d")),
	} {
		if id := other.ID(); ids[id] {
			t.Errorf("%s: the id %s is that of another batch", name, id)
		} else {
			ids[id] = true
		}
	}
}
