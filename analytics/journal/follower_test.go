package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

func newFollower(t *testing.T, dir string, from *journal.Cursor) *journal.Follower {
	t.Helper()
	r, err := journal.NewFollower(dir, "ams-1", from)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rest returns the request ids of all events that exist now and that the follower has not passed.
func rest(t *testing.T, r *journal.Follower) (requests []string) {
	t.Helper()
	if err := r.Look(); err != nil {
		t.Fatal(err)
	}
	for {
		line := r.Peek()
		if line == nil {
			return requests
		}
		var e analytics.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Phase != analytics.PhaseEnd {
			t.Errorf("the follower has passed a begin: %s", line)
		}
		requests = append(requests, e.RequestID)
		r.Next()
	}
}

// A segment that cannot be read delays only the events of its kind. A follower that begins meanwhile goes on where the one before was.
func TestFollowerLeavesOutWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	l.Append(refusal("r0"))
	before := newFollower(t, dir, nil)
	if got := fmt.Sprint(rest(t, before)); got != "[r0]" {
		t.Fatalf("read %s", got)
	}
	at := before.At()
	l.Append(inference("r1", analytics.PhaseEnd))
	l.Append(refusal("r2"))
	segments := files(t, dir, "refused-*.log")
	if len(segments) != 1 {
		t.Fatalf("segments of refusals: %q", segments)
	}
	segment := segments[0]
	if err := errors.Join(os.Rename(segment, segment+".away"), os.Mkdir(segment, 0o700)); err != nil { // a test that runs as root may read everything else
		t.Fatal(err)
	}
	r := newFollower(t, dir, &at)
	for _, request := range []string{"r1", "r3"} {
		if got := fmt.Sprint(rest(t, r)); got != "["+request+"]" {
			t.Errorf("read %s, want %s", got, request)
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), segment) {
			t.Errorf("the error is %v, want one that names %s", err, segment)
		}
		wantBehind(t, dir, r.At(), 0, 0)
		l.Append(inference("r3", analytics.PhaseEnd))
	}
	if err := errors.Join(os.Remove(segment), os.Rename(segment+".away", segment)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(rest(t, r)); got != "[r2 r3]" || r.Err() != nil {
		t.Errorf("read %s, %v; want the refusal, and what came last", got, r.Err())
	}
}

func wantBehind(t *testing.T, dir string, at journal.Cursor, events, missed uint64) {
	t.Helper()
	got, err := journal.NewGauge(dir, "ams-1").Behind(at)
	if err != nil {
		t.Fatal(err)
	}
	if got.Events != events || got.Missed != missed {
		t.Errorf("behind by %d events, %d missed; want %d and %d", got.Events, got.Missed, events, missed)
	}
}

func TestFollowerMergesKindsAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir})
	r := newFollower(t, dir, nil)
	if got := rest(t, r); got != nil {
		t.Fatalf("read %q of nothing", got)
	}
	l.Append(inference("r1", analytics.PhaseBegin))
	l.Append(refusal("r2"))
	l.Append(inference("r1", analytics.PhaseEnd))
	l.Append(refusal("r3"))
	wantBehind(t, dir, r.At(), 3, 0)
	if got := fmt.Sprint(rest(t, r)); got != "[r2 r1 r3]" {
		t.Errorf("read %s", got)
	}
	wantBehind(t, dir, r.At(), 0, 0)
	l.Append(refusal("r4"))
	at := r.At()
	if got := fmt.Sprint(rest(t, r)); got != "[r4]" {
		t.Errorf("read %s", got)
	}
	if got := fmt.Sprint(rest(t, newFollower(t, dir, &at))); got != "[r4]" {
		t.Errorf("a follower at an earlier cursor read %s", got)
	}
}

// A follower that is away until segments are dropped knows exactly how many events it has missed, also after restarts of the node, while it is
// away and after it came back.
func TestFollowerCountsWhatItMissed(t *testing.T) {
	dir := t.TempDir()
	c := journal.Config{Dir: dir, SegmentBytes: 4096, MaxBytes: 20 * 4096}
	l := open(t, c)
	const all = 1000
	number := 0
	appendSome := func(n int) {
		for range n {
			number++
			request := fmt.Sprint(number)
			if number%3 == 0 {
				l.Append(refusal(request))
				continue
			}
			l.Append(inference(request, analytics.PhaseBegin))
			l.Append(inference(request, analytics.PhaseEnd))
		}
	}
	appendSome(20)
	r := newFollower(t, dir, nil)
	first := rest(t, r)[:10]
	r = newFollower(t, dir, nil)
	_ = r.Look()
	for range first {
		r.Peek()
		r.Next()
	}
	at := r.At()
	for number < all {
		appendSome(70)
		closeLog(t, l)
		l = open(t, c)
		gauge, err := journal.NewGauge(dir, "ams-1").Behind(at)
		if err != nil {
			t.Fatal(err)
		}
		if got := gauge.Events + gauge.Missed + uint64(len(first)); got != uint64(number) {
			t.Errorf("of %d events, %d are known", number, got)
		}
	}
	appendSome(3) // of each kind, since a follower counts what it has missed when it passes it
	late := newFollower(t, dir, &at)
	read := len(first) + len(rest(t, late))
	missed := late.At().Missed()
	if missed == 0 || read+int(missed) != number {
		t.Errorf("of %d events, %d were read and %d missed", number, read, missed)
	}
	// The reader that was there all the time has a segment in its buffer that has been dropped.
	read = len(first) + len(rest(t, r))
	if missed := r.At().Missed(); read+int(missed) != number {
		t.Errorf("of %d events, %d were read and %d missed by the follower that has waited", number, read, missed)
	}
	wantBehind(t, dir, r.At(), 0, r.At().Missed())
}

func TestFollowerSkipsBadLines(t *testing.T) {
	data, tail := segmentOf(t, 4, 1)
	f := func(name string, data []byte, wantRead int, wantCorrupt uint64) {
		t.Helper()
		dir := t.TempDir()
		node := filepath.Join(dir, "events", "ams-1")
		if err := os.MkdirAll(node, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(node, "1.log"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := newFollower(t, dir, nil)
		before := len(rest(t, r))
		l := open(t, journal.Config{Dir: dir})
		l.Append(inference("after", analytics.PhaseEnd))
		if got := before + len(rest(t, r)); got != wantRead || r.At().Corrupt() != wantCorrupt {
			t.Errorf("%s: read %d events and %d corrupt lines, want %d and %d", name, got, r.At().Corrupt(), wantRead, wantCorrupt)
		}
	}
	flipped := append([]byte{}, data...)
	flipped[len(data)/2] ^= 1
	f("whole", data, 5, 0) // r0, r1, r2, the end of r3 as crashed, and one after
	f("flipped", flipped, 4+bytes.Count(data[:len(data)/2], []byte("\n"))%2, 1)
	f("torn", data[:tail+20], 4, 1)
	f("zeros", append(append([]byte{}, data...), make([]byte, 300<<10)...), 5, 0)
	f("hole", append(append(append([]byte{}, data...), make([]byte, 200<<10)...), data[tail:]...), 5, 1)
	r := newFollower(t, t.TempDir(), &journal.Cursor{Billing: journal.Position{Segment: 7, Offset: 9000}})
	if got := rest(t, r); got != nil {
		t.Errorf("read %q of nothing", got)
	}
}

// Several goroutines append while a follower follows: it sees each event once.
func TestFollowerFollowsWriters(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 64 << 10, MaxBytes: 64 << 20})
	const writers, each = 4, 3000
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				e := inference(fmt.Sprintf("%d-%d", w, i), analytics.PhaseEnd)
				if i%2 == 0 {
					e = refusal(e.RequestID)
				}
				l.Append(e)
			}
		})
	}
	written := make(chan struct{})
	go func() { group.Wait(); close(written) }()
	r, seen := newFollower(t, dir, nil), map[string]int{}
	for ended := false; ; {
		found := rest(t, r)
		for _, request := range found {
			seen[request]++
		}
		if ended {
			break
		}
		select {
		case <-written:
			ended = true
		default:
		}
	}
	if len(seen) != writers*each || r.At().Corrupt() != 0 || r.At().Missed() != 0 {
		t.Errorf("read %d of %d events, %+v", len(seen), writers*each, r.At())
	}
	for request, times := range seen {
		if times != 1 {
			t.Errorf("%s was read %d times", request, times)
		}
	}
}

// A full segment without a count, as an older version has left it, is counted once.
func TestGaugeCountsFullSegmentsOnce(t *testing.T) {
	dir := t.TempDir()
	l := open(t, journal.Config{Dir: dir, SegmentBytes: 4096, MaxBytes: 20 * 4096})
	for i := range 50 {
		l.Append(inference(fmt.Sprint(i), analytics.PhaseEnd))
	}
	below := filepath.Join(dir, "events", "ams-1")
	if err := os.Remove(filepath.Join(below, "counts")); err != nil {
		t.Fatal(err)
	}
	gauge := journal.NewGauge(dir, "ams-1")
	for range 2 {
		if got, err := gauge.Behind(journal.Cursor{}); err != nil || got.Events != 50 {
			t.Errorf("behind by %d events, %v", got.Events, err)
		}
		if err := os.WriteFile(filepath.Join(below, "1.log"), nil, 0o640); err != nil { // which shows when it is counted again
			t.Fatal(err)
		}
	}
}
