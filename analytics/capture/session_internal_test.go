package capture

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/internal/testkit"
)

func sessionTo(path string, log *testkit.SyncBuffer) (*session, *memory) {
	c := fleet.Capture{Name: "debug", Account: "acme", Until: time.Now().Add(time.Hour), Sink: "file:" + path, MaxBytes: fleet.KiB}
	m := &memory{}
	return newSession(c, "edge-1", slog.New(slog.NewTextHandler(log, nil)), m), m
}

// The log says every minute that a capture goes on, also while its sink takes nothing.
func TestReminds(t *testing.T) {
	f := func(path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var log testkit.SyncBuffer
			s, _ := sessionTo(path, &log)
			var running sync.WaitGroup
			running.Go(func() { s.run(context.Background()) })
			r := s.begin()
			r.RequestBody([]byte("hello"))
			r.End()
			time.Sleep(2*time.Minute + 30*time.Second)
			if n := strings.Count(log.String(), "still capturing"); n != 2 {
				t.Errorf("%s: %d reminders in two and a half minutes; the log is\n%s", path, n, log.String())
			}
			s.stop()
			running.Wait()
		})
	}
	dir := t.TempDir()
	f(filepath.Join(dir, "acme.jsonl"))
	f(filepath.Join(dir, "missing", "acme.jsonl"))
}

// A request that ends at the same moment as the capture leaves its record, and gives back its memory.
func TestRecordEndsWithItsCapture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acme.jsonl")
	synctest.Test(t, func(t *testing.T) {
		s, m := sessionTo(path, &testkit.SyncBuffer{})
		r := s.begin()
		r.RequestBody([]byte("hello"))
		if !r.close(false) {
			t.Fatal("the record has ended")
		}
		s.stop()
		var running sync.WaitGroup
		running.Go(func() { s.run(context.Background()) })
		synctest.Wait()
		r.onEnd(r) // the rest of End
		running.Wait()
		if written, held := s.written.Load(), m.held.Load(); written != 1 || held != 0 {
			t.Errorf("%d records are written, and %d bytes are held", written, held)
		}
	})
}
