package journal_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

func open(t *testing.T, c journal.Config) *journal.Log {
	t.Helper()
	if c.Node == "" {
		c.Node = "ams-1"
	}
	l, err := journal.Open(c)
	// A child process of a parallel test holds the lock of a log that was just closed, too, until it calls exec.
	for deadline := time.Now().Add(time.Second); errors.Is(err, journal.ErrInUse) && time.Now().Before(deadline); l, err = journal.Open(c) {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func closeLog(t *testing.T, l *journal.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func inference(request string, phase analytics.Phase) *analytics.Event {
	e := &analytics.Event{
		EventID: analytics.EventID(request, "ams-1", 1, analytics.KindInference), RequestID: request,
		Kind: analytics.KindInference, Phase: phase, Model: "m", Pool: "p", Account: "a",
	}
	if phase == analytics.PhaseEnd {
		e.Outcome = analytics.OutcomeCompleted
	}
	return e
}

func refusal(request string) *analytics.Event {
	return &analytics.Event{
		EventID: analytics.EventID(request, "ams-1", 0, analytics.KindRequest), RequestID: request,
		Kind: analytics.KindRequest, Phase: analytics.PhaseEnd, Outcome: analytics.OutcomeRefused, Status: 429,
	}
}

// read returns the events of a directory without duplicates, and how many lines were bad.
func read(t *testing.T, dir string) (events []analytics.Event, bad int) {
	t.Helper()
	type key struct {
		id    string
		phase analytics.Phase
	}
	seen := map[key]bool{}
	for e, err := range journal.ReadDir(dir) {
		switch {
		case errors.Is(err, journal.ErrTorn), errors.Is(err, journal.ErrCorrupt):
			bad++
		case err != nil:
			t.Fatal(err)
		case !seen[key{e.EventID, e.Phase}]:
			seen[key{e.EventID, e.Phase}] = true
			events = append(events, e)
		}
	}
	return events, bad
}

func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "events", "*", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAppendAndRead(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, Node: "ams/1"})
	begin := inference("r1", analytics.PhaseBegin)
	begin.Time = time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("", 3600))
	l.Append(begin)
	l.Append(inference("r1", analytics.PhaseEnd))
	got, bad := read(t, dir) // before Close: an appended event is visible at once
	if len(got) != 2 || bad != 0 {
		t.Fatalf("read %d events and %d bad lines, want 2 and 0", len(got), bad)
	}
	if got[0].Node != "ams/1" || !got[0].Time.Equal(begin.Time) || got[0].Time.Location() != time.UTC {
		t.Errorf("first event is of node %q at %v", got[0].Node, got[0].Time)
	}
	if since := time.Since(got[1].Time); since < 0 || since > time.Minute {
		t.Errorf("an event without a time was given %v", got[1].Time)
	}
	s := l.Stats()
	if s.Appended != 2 || s.OpenBegins != 0 || s.Bytes == 0 || s.Dropped.Total()+s.Errors != 0 {
		t.Errorf("stats %+v", s)
	}
	if begin.Node != "" {
		t.Error("Append changed the caller's event")
	}
}

// fill sets every field, so that a field that is not written or not read is noticed.
func fill(v reflect.Value, text string) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(text)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i+1) * 1_234_000)
		case reflect.Float64:
			f.SetFloat(float64(i) + 0.125)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{text, "b"}))
		case reflect.Struct:
			f.Set(reflect.ValueOf(time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)))
		default:
			panic("field of a kind this test does not know: " + v.Type().Field(i).Name)
		}
	}
}

// Every field comes back as it was appended; a number that JSON cannot express is left out, and the event is kept.
func TestEventsComeBackWhole(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	var want []analytics.Event
	for i, text := range []string{"plain", `quote " and \`, "line\nbreak", "a<b>&c", "grün\u2028", "\x00\x7f"} {
		var e analytics.Event
		fill(reflect.ValueOf(&e).Elem(), text)
		e.EventID = fmt.Sprint(i)
		want = append(want, e)
		l.Append(&e)
	}
	costly := want[0]
	costly.EventID, costly.Cost, costly.AudioSeconds = "costly", math.Inf(1), math.NaN()
	l.Append(&costly)
	costly.Cost, costly.AudioSeconds = 0, 0
	want = append(want, costly)
	if got, bad := read(t, dir); bad != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d bad lines, got\n%+v\nwant\n%+v", bad, got, want)
	}
}

func TestConcurrentAppends(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 16 << 10, MaxBytes: 16 << 20})
	var group sync.WaitGroup
	const workers, each = 8, 200
	for w := range workers {
		group.Go(func() {
			for i := range each {
				request := fmt.Sprintf("r-%d-%d", w, i)
				l.Append(inference(request, analytics.PhaseBegin))
				l.Append(inference(request, analytics.PhaseEnd))
			}
		})
	}
	group.Wait()
	if got, bad := read(t, dir); len(got) != 2*workers*each || bad != 0 {
		t.Errorf("read %d events and %d bad lines, want %d and 0", len(got), bad, 2*workers*each)
	}
	if n := len(files(t, dir, "*.log")); n < 2 {
		t.Errorf("%d segments, want several", n)
	}
}

func TestChecksum(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	for _, r := range []string{"r1", "r2", "r3"} {
		l.Append(inference(r, analytics.PhaseEnd))
	}
	closeLog(t, l)
	path := files(t, dir, "1.log")[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := func(old, new string) {
		t.Helper()
		changed := strings.Replace(string(data), old, new, 1)
		if changed == string(data) {
			t.Fatalf("no %q in the segment", old)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, bad := read(t, dir); len(got) != 2 || bad != 1 {
			t.Errorf("%q → %q: read %d events and %d bad lines, want 2 and 1", old, new, len(got), bad)
		}
	}
	f(`"r2"`, `"r9"`)
	f(string(data[:8]), "zzzzzzzz")
	f(string(data[:9]), "")
}

func TestSegmentsRollAndAreDropped(t *testing.T) {
	dir := t.TempDir()
	const segmentBytes, maxBytes = 4 << 10, 32 << 10
	l := open(t, journal.Config{Dir: dir, SegmentBytes: segmentBytes, MaxBytes: maxBytes})
	l.Append(inference("long", analytics.PhaseBegin)) // outlives every dropped segment
	const requests = 500
	for i := range requests {
		l.Append(inference(fmt.Sprintf("r%d", i), analytics.PhaseEnd))
		if s := l.Stats(); s.Bytes > maxBytes {
			t.Fatalf("%d bytes on disk, the bound is %d", s.Bytes, maxBytes)
		}
	}
	got, bad := read(t, dir)
	s := l.Stats()
	if s.Dropped.Total() == 0 || bad != 0 || uint64(len(got))+s.Dropped.Total() != s.Appended {
		t.Errorf("%d events on disk and %d dropped, %d were appended; %d bad lines", len(got), s.Dropped.Total(), s.Appended, bad)
	}
	if got[0].RequestID != "long" || got[len(got)-1].RequestID != fmt.Sprintf("r%d", requests-1) {
		t.Errorf("kept %s to %s, want the open begin and the newest", got[0].RequestID, got[len(got)-1].RequestID)
	}
	var onDisk int64
	for _, path := range files(t, dir, "*.log") {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		onDisk += info.Size()
	}
	if onDisk != s.Bytes {
		t.Errorf("%d bytes on disk, stats say %d", onDisk, s.Bytes)
	}
}

func TestRefusalsHaveTheirOwnSegments(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 4 << 10, MaxBytes: 36 << 10}
	l := open(t, c)
	for i := range 80 { // several segments, below the bound
		l.Append(inference(fmt.Sprintf("bill%d", i), analytics.PhaseEnd))
	}
	for i := range 1000 { // a storm
		l.Append(refusal(fmt.Sprintf("no%d", i)))
	}
	f := func(wantBilling int) {
		t.Helper()
		got, _ := read(t, dir)
		billing, refusals := 0, 0
		for _, e := range got {
			if e.Kind == analytics.KindInference {
				billing++
			} else {
				refusals++
			}
		}
		s := l.Stats()
		if billing != wantBilling || s.Dropped.Total() != s.Dropped.Refusals || uint64(1000-refusals) != s.Dropped.Total() || s.Bytes > c.MaxBytes {
			t.Errorf("%d billing (want %d), %d refusals on disk; %+v", billing, wantBilling, refusals, s)
		}
	}
	f(80)
	for i := range 20 { // billing push out refusals
		l.Append(inference(fmt.Sprintf("more%d", i), analytics.PhaseEnd))
	}
	f(100)
	if len(files(t, dir, "refused-*.log")) == 0 {
		t.Error("no segments of refusals")
	}
}

func TestLogThatKeepsNothing(t *testing.T) {
	var none *journal.Log
	none.Append(inference("r", analytics.PhaseBegin))
	if err := none.Close(); err != nil || none.Stats() != (journal.Stats{}) {
		t.Errorf("nil log: %v, %+v", err, none.Stats())
	}
	l := open(t, journal.Config{})
	l.Append(inference("r", analytics.PhaseBegin))
	if s := l.Stats(); s.Appended != 1 || s.OpenBegins != 1 || s.Bytes != 0 || s.Dropped.Total() != 0 {
		t.Errorf("log without a directory: %+v", s)
	}
	l.Append(inference("r", analytics.PhaseEnd))
	if s := l.Stats(); s.OpenBegins != 0 {
		t.Errorf("log without a directory: %+v", s)
	}
	closeLog(t, l)
}

func TestOpenRejectsBadConfig(t *testing.T) {
	f := func(c journal.Config, want string) {
		t.Helper()
		if l, err := journal.Open(c); err == nil || !strings.Contains(err.Error(), want) {
			_ = l.Close()
			t.Errorf("%+v: got error %v, want one with %q", c, err, want)
		}
	}
	f(journal.Config{Dir: t.TempDir()}, `Node is ""`)
	f(journal.Config{Dir: t.TempDir(), Node: ".."}, `Node is ".."`)
	f(journal.Config{Dir: t.TempDir(), Node: "n", SegmentBytes: 100, MaxBytes: 499}, "MaxBytes is 499")
	f(journal.Config{Dir: t.TempDir(), Node: "n", SegmentBytes: -1}, "SegmentBytes")
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	if _, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"}); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("two logs of one node: got %v, want %v", err, journal.ErrInUse)
	}
	open(t, journal.Config{Dir: dir, Node: "ams-2"})
	closeLog(t, l)
	open(t, journal.Config{Dir: dir})
}
