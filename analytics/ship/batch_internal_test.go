package ship

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	f("id", len(b.NDJSON())/PieceBytes, func() {
		if sum := sha256.Sum256(b.NDJSON()); b.ID() != hex.EncodeToString(sum[:16]) {
			t.Errorf("the id %s is not of the content", b.ID())
		}
	})
	f("events", events/PieceEvents, func() {
		if all, err := b.Events(); err != nil || len(all) != events || all[events-1].EventID != "999" {
			t.Errorf("%d events, %v", len(all), err)
		}
	})
}

// The id is that of the content, however the batch was filled.
func TestIDOfBatchThatIsFilledAgain(t *testing.T) {
	b := &Batch{Node: "ams-1"}
	f := func(step string) {
		t.Helper()
		if sum := sha256.Sum256(b.NDJSON()); b.ID() != hex.EncodeToString(sum[:16]) {
			t.Errorf("%s: the id %s is not of the content %s", step, b.ID(), b.NDJSON())
		}
	}
	b.add([]byte("a"))
	f("the first")
	b.add([]byte("b"))
	f("with a line more")
	b.reset()
	f("without lines")
	b.add([]byte("c"))
	b.add([]byte("d"))
	f("filled again")
	if part := b.part(1, 2); part.ID() != NewBatch("ams-1", "1", []byte("d")).ID() {
		t.Error("a part has another id than its lines")
	}
}
