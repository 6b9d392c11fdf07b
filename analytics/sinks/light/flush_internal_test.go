package light

import (
	"path/filepath"
	"strings"
	"testing"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
)

// A flush is one of the file, only of something new, and fails for good once it has failed: the kernel reports a failure once.
func TestFlush(t *testing.T) {
	spec, err := sinks.Parse("file:" + filepath.Join(t.TempDir(), "e.jsonl") + "?max_bytes=1KiB")
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFile(spec, sinks.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		if err := f.Send(t.Context(), ship.NewBatch("ams-1", "1-0", []byte(strings.Repeat("x", 700)))); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(want string) {
		t.Helper()
		switch err := f.Sync(); {
		case want == "" && (err != nil || f.unsynced), want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("flush: %v, unsynced %t, want %q", err, f.unsynced, want)
		}
	}
	sync("")
	send()
	sync("")
	send() // into a new file
	if !f.unsynced {
		t.Error("a batch needs no flush")
	}
	_ = f.open.Close() // flushes fail from now on
	sync("cannot flush")
	for range 3 { // also when the file is opened again, and when it is full
		send()
		sync("cannot flush")
	}
	if err := f.Close(); err == nil {
		t.Error("the file is closed without an error, and something may be lost")
	}
}
