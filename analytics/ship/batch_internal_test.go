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
