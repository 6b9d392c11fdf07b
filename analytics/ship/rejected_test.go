package ship_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/ship"
	"colonnade/internal/testkit"
)

// A sink that rejects some events gets all others, whatever the place of those in the batch. The log names the reason of each.
func TestRejectedEventsAreFound(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 40)
	bad := func(i string) bool { return strings.HasSuffix(i, "7") || i == "10" || i == "11" }
	to := &sink{send: func(b *ship.Batch) error {
		for _, line := range b.Lines() {
			var e analytics.Event
			if err := json.Unmarshal(line, &e); err != nil || bad(e.RequestID) {
				return ship.Rejected(fmt.Errorf("constraint violated by %s", e.EventID))
			}
		}
		return nil
	}}
	c := config(dir)
	var log bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := shipOnce(t, c, to)
	for _, id := range []string{"id-7", "id-10", "id-11", "id-17", "id-27", "id-37"} {
		if line := fmt.Sprintf(`event_id=%s error="constraint violated by %s"`, id, id); strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say once why %s was rejected:\n%s", id, log.String())
		}
	}
	want := slices.DeleteFunc(numbers(0, 40), bad)
	wantTaken(t, to, want)
	if s.Rejected != 6 || s.Shipped != 34 || s.Failures != 0 || !strings.Contains(s.LastRejected, "id-37") {
		t.Errorf("%+v", s)
	}
}

// A sink that says which events it has not taken gets no halves.
func TestRejectedByIndex(t *testing.T) {
	dir := t.TempDir()
	l := openJournal(t, journal.Config{Dir: dir})
	appendEvents(l, 0, 30)
	batches := 0
	to := &sink{send: func(*ship.Batch) error {
		batches++
		switch batches {
		case 1:
			return &ship.RejectedError{Err: errors.New("no"), Events: []int{1, 5}}
		case 2:
			return &ship.RejectedError{Err: errors.New("some"), Lost: 3}
		}
		return nil
	}}
	if s := shipOnce(t, config(dir), to); s.Rejected != 5 || s.Shipped != 25 || batches != 3 {
		t.Errorf("%+v after %d batches", s, batches)
	}
}

// A sink that rejects everything loses nothing: it is a failing sink, and gets all events once it takes them.
func TestSinkThatRejectsEverything(t *testing.T) {
	f := func(name string, refusal func(b *ship.Batch) error) {
		t.Helper()
		dir := t.TempDir()
		l := openJournal(t, journal.Config{Dir: dir})
		var well atomic.Bool
		to := &sink{send: func(b *ship.Batch) error {
			if well.Load() {
				return nil
			}
			return refusal(b)
		}}
		c := config(dir)
		s := open(t, c, to)
		end := run(t, s)
		appendEvents(l, 0, 500) // many batches
		testkit.WaitFor(t, "several failures", func() bool { return s.Stats().Failures >= 3 })
		appendEvents(l, 500, 510)
		stats := s.Stats()
		if stats.Rejected != 0 || stats.Shipped != 0 || stats.LagEvents != 510 || !strings.Contains(stats.Failing, "it rejects every event: the receiver answered 400") {
			t.Errorf("%s: while it rejects: %+v", name, stats)
		}
		end()
		well.Store(true)
		if stats := shipOnce(t, c, to); stats.Rejected != 0 || stats.Shipped != 510 {
			t.Errorf("%s: afterwards: %+v", name, stats)
		}
		wantTaken(t, to, numbers(0, 510))
	}
	no := errors.New("the receiver answered 400")
	f("batches", func(*ship.Batch) error { return ship.Rejected(no) })
	f("events", func(b *ship.Batch) error {
		e := &ship.RejectedError{Err: no}
		for i := range b.Lines() {
			e.Events = append(e.Events, i)
		}
		return e
	})
	f("a number", func(b *ship.Batch) error { return &ship.RejectedError{Err: no, Lost: b.Len()} })
}

// Events that a sink rejects, and that are alone in their batch, are skipped once it takes an event after them.
func TestRejectedEventsAlone(t *testing.T) {
	for _, size := range []int{1, 10} {
		dir := t.TempDir()
		l := openJournal(t, journal.Config{Dir: dir})
		to := &sink{send: func(b *ship.Batch) error {
			events, err := b.Events()
			if err != nil || len(events) != b.Len() {
				t.Errorf("a batch of %d events has %d, %v", b.Len(), len(events), err)
			}
			if slices.ContainsFunc(events, func(e analytics.Event) bool { return e.Model == "refused" }) {
				return ship.Rejected(errors.New("no"))
			}
			return nil
		}}
		c := config(dir)
		c.BatchEvents = size
		s := open(t, c, to)
		end := run(t, s)
		for i := range 3 {
			e := event(i)
			e.Model = "refused"
			l.Append(e)
		}
		testkit.WaitFor(t, "a failure", func() bool { return s.Stats().Failing != "" })
		if stats := s.Stats(); stats.Rejected != 0 || stats.LagEvents != 3 {
			t.Errorf("alone: %+v", stats)
		}
		appendEvents(l, 3, 5)
		testkit.WaitFor(t, "the rest", func() bool { return s.Stats().LagEvents == 0 })
		if stats := s.Stats(); stats.Rejected != 3 || stats.Shipped != 2 || stats.Failing != "" || stats.LastRejected != "no" {
			t.Errorf("with others: %+v", stats)
		}
		end()
		wantTaken(t, to, numbers(3, 5))
		if ids := slices.Compact(to.ids); len(ids) < 3 { // of the batch, of one that has grown, of the last event
			t.Errorf("batches %q", ids)
		}
	}
}
