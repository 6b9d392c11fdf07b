package journal_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// request returns an event of an entry; outcome is for an end.
func request(id string, phase analytics.Phase, outcome analytics.Outcome) *analytics.Event {
	return &analytics.Event{
		EventID: analytics.EventID(id, "ams-1", 0, analytics.KindRequest), RequestID: id,
		Kind: analytics.KindRequest, Phase: phase, Outcome: outcome, Model: "m", Account: "a",
	}
}

// outcomes counts final events by outcome, and fails if a request has more than one.
func outcomes(t *testing.T, dir string) map[analytics.Outcome]int {
	t.Helper()
	found, ends := map[analytics.Outcome]int{}, map[string]int{}
	events, bad := read(t, dir)
	for _, e := range events {
		if e.Phase == analytics.PhaseEnd {
			found[e.Outcome]++
			ends[e.EventID]++
		} else if e.Kind == analytics.KindRequest {
			t.Errorf("the begin of request %s is visible to readers", e.RequestID)
		}
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("event %s has %d ends", id, n)
		}
	}
	if bad != 0 {
		t.Errorf("%d bad lines", bad)
	}
	return found
}

// The next run ends the requests that were open when an entry was killed, wherever the ends of others are.
func TestRestartEndsOpenRequests(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 4 << 10, MaxBytes: 1 << 20}
	l := open(t, c)
	l.Append(request("early", analytics.PhaseBegin, ""))
	const each = 100
	for i := range each { // each kind of segments rolls several times, at its own times
		for _, o := range []analytics.Outcome{analytics.OutcomeCompleted, analytics.OutcomeRefused, analytics.OutcomeClientGone} {
			id := fmt.Sprintf("%s-%d", o, i)
			l.Append(request(id, analytics.PhaseBegin, ""))
			l.Append(inference(id, analytics.PhaseBegin))
			l.Append(inference(id, analytics.PhaseEnd))
			l.Append(request(id, analytics.PhaseEnd, o))
		}
	}
	l.Append(request("late", analytics.PhaseBegin, ""))
	if s := l.Stats(); s.OpenBegins != 2 || s.Dropped.Total() != 0 || s.Appended != 9*each {
		t.Errorf("stats %+v", s)
	}
	if n := len(files(t, dir, "journal-*.log")); n != 1 {
		t.Errorf("%d segments of begins, want the newest only", n)
	}
	closeLog(t, l)

	l = open(t, c)
	if s := l.Stats(); s.Crashed != 2 || s.Appended != 2 || s.OpenBegins != 0 {
		t.Errorf("stats after the restart: %+v", s)
	}
	got := outcomes(t, dir)
	if got[analytics.OutcomeCrashed] != 2 || got[analytics.OutcomeCompleted] != 4*each || got[analytics.OutcomeRefused] != each || got[analytics.OutcomeClientGone] != each {
		t.Errorf("ends: %v", got)
	}
	if n := len(files(t, dir, "journal-*.log")); n != 0 {
		t.Errorf("%d segments of begins are left over", n)
	}
	closeLog(t, l)
	if s := open(t, c).Stats(); s.Crashed != 0 {
		t.Errorf("a second restart ended %d more", s.Crashed)
	}
}

// Each run ends the open requests of the run before, once.
func TestEachRunEndsThoseOfTheRunBefore(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 2 << 10, MaxBytes: 1 << 20}
	const runs, requests = 12, 25
	for run := range runs {
		l := open(t, c)
		for i := range requests {
			id := fmt.Sprintf("%d-%d", run, i)
			l.Append(request(id, analytics.PhaseBegin, ""))
			if i%5 != 0 {
				l.Append(request(id, analytics.PhaseEnd, analytics.OutcomeCompleted))
			}
		}
		closeLog(t, l)
	}
	closeLog(t, open(t, c))
	got := outcomes(t, dir)
	if got[analytics.OutcomeCrashed] != runs*requests/5 || got[analytics.OutcomeCompleted] != runs*requests*4/5 {
		t.Errorf("ends: %v", got)
	}
}

// An incomplete last begin, or begins that cannot be written at all, lose no event.
func TestFailingBeginsLoseNoEvent(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	l.Append(request("r1", analytics.PhaseBegin, ""))
	l.Append(request("r2", analytics.PhaseBegin, ""))
	l.Append(request("r1", analytics.PhaseEnd, analytics.OutcomeCompleted))
	closeLog(t, l)
	path := files(t, dir, "journal-*.log")[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(data)-20)); err != nil { // of a process that was killed in Append
		t.Fatal(err)
	}
	l = open(t, journal.Config{Dir: dir})
	if s := l.Stats(); s.Crashed != 0 || s.Torn != 1 {
		t.Errorf("stats %+v", s)
	}
	node := strings.TrimSuffix(path, "/"+path[strings.LastIndexByte(path, '/')+1:])
	if err := os.Rename(node, node+".away"); err != nil {
		t.Fatal(err)
	}
	l.Append(request("r3", analytics.PhaseBegin, ""))
	if s := l.Stats(); s.Errors != 1 || s.Dropped.Total() != 0 || s.OpenBegins != 1 {
		t.Errorf("stats %+v", s)
	}
	if err := os.Rename(node+".away", node); err != nil {
		t.Fatal(err)
	}
	l.Append(request("r3", analytics.PhaseEnd, analytics.OutcomeCompleted))
	if got := outcomes(t, dir); got[analytics.OutcomeCompleted] != 2 || l.Stats().OpenBegins != 0 {
		t.Errorf("ends %v, stats %+v", got, l.Stats())
	}
}

// The end of a request is found many segments before the newest, if no segment of begins was started meanwhile.
func TestEndsAreFoundInOlderSegments(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 4 << 10, MaxBytes: 1 << 20}
	l := open(t, c)
	l.Append(inference("before", analytics.PhaseEnd))
	for _, o := range []analytics.Outcome{analytics.OutcomeCompleted, analytics.OutcomeRefused, ""} {
		l.Append(request("is "+string(o), analytics.PhaseBegin, ""))
		if o != "" {
			l.Append(request("is "+string(o), analytics.PhaseEnd, o))
		}
	}
	for i := range 100 {
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
		no := request(fmt.Sprintf("no%d", i), analytics.PhaseEnd, analytics.OutcomeRefused)
		l.Append(no) // refused before it had a begin
	}
	if n := len(files(t, dir, "[0-9]*.log")); n < 4 {
		t.Fatalf("%d segments, want some", n)
	}
	closeLog(t, l)
	if s := open(t, c).Stats(); s.Crashed != 1 {
		t.Errorf("%d requests were ended as crashed, want 1", s.Crashed)
	}
}

// A failure of one kind of segments is logged once, with a message of its own, and so is its end.
func TestFailuresAreLoggedOnce(t *testing.T) {
	var text bytes.Buffer
	c := journal.Config{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&text, nil))}
	l := open(t, c)
	requests := func() {
		for i := range 100 {
			l.Append(request(fmt.Sprint(i), analytics.PhaseBegin, ""))
			l.Append(request(fmt.Sprint(i), analytics.PhaseEnd, analytics.OutcomeCompleted))
			l.Append(refusal(fmt.Sprint("no", i)))
		}
	}
	logged := func(want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != len(want) {
			t.Fatalf("%d lines, want %d:\n%.2000s", len(lines), len(want), text.String())
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("no %q: %s", want[i], lines[i])
			}
		}
		text.Reset()
	}
	l.Append(inference("0", analytics.PhaseEnd))
	l.Append(request("0", analytics.PhaseEnd, analytics.OutcomeCompleted))
	l.Append(refusal("0"))
	node := strings.TrimSuffix(files(t, c.Dir, "1.log")[0], "/1.log")
	if err := os.Rename(node, node+".away"); err != nil { // open segments can still be written
		t.Fatal(err)
	}
	requests()
	const begins = `msg="begins are not kept: requests open at a crash would leave no event"`
	logged(begins)
	if s := l.Stats(); s.Dropped.Total() != 0 || s.Errors != 100 {
		t.Errorf("stats %+v", s)
	}
	if err := os.Rename(node+".away", node); err != nil {
		t.Fatal(err)
	}
	requests()
	logged(`msg="begins are kept again"`)
	closeLog(t, l)
	requests()
	logged(begins, `msg="events are being lost" events="ends of requests"`, `msg="events are being lost" events=refusals`)
}
