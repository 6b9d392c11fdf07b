package journal_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// useAllFiles opens files until the process may open no more, and returns a function that closes them.
func useAllFiles(t *testing.T) (release func()) {
	t.Helper()
	restore := testkit.LimitFiles(t, 4)
	var all []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return func() {
		restore()
		for _, f := range all {
			f.Close()
		}
	}
}

// The first events of a run are kept although the process has no file descriptors left, and so are those of the segment after.
func TestShortageOfDescriptorsLosesNoEvent(t *testing.T) {
	c := journal.Config{Dir: t.TempDir(), SegmentBytes: 4 << 10, MaxBytes: 1 << 20}
	l := open(t, c)
	release := useAllFiles(t)
	const each = 20 // more than a segment takes
	for i := range each {
		id := fmt.Sprint(i)
		l.Append(request(id, analytics.PhaseBegin, ""))
		l.Append(inference(id, analytics.PhaseBegin))
		l.Append(inference(id, analytics.PhaseEnd))
		l.Append(request(id, analytics.PhaseEnd, analytics.OutcomeCompleted))
		l.Append(refusal("no" + id))
	}
	release()
	if s := l.Stats(); s.Appended != 4*each || s.Dropped.Total()+s.Errors != 0 {
		t.Errorf("stats %+v", s)
	}
	if n := len(files(t, c.Dir, "[0-9]*.log")); n < 2 {
		t.Errorf("%d billing segments, want two or more", n)
	}
	if got, bad := read(t, c.Dir); len(got) != 4*each || bad != 0 {
		t.Errorf("%d events and %d bad lines are read, want %d and none", len(got), bad, 4*each)
	}
}

// A storm of requests and refusals at one node leaves room for the inferences of each node on the same small disk. The newest
// requests and refusals are kept, and what is lost is counted and reported.
func TestRequestsLeaveRoomForInferences(t *testing.T) {
	c := journal.Config{Dir: smallDisk(t, 512), SegmentBytes: 16 << 10, MaxBytes: 1 << 20} // more than the disk has
	entry, colo := c, c
	entry.Node, colo.Node = "edge-1", "ams-1"
	edge, ams := open(t, entry), open(t, colo)
	const storm, inferences = 3000, 60
	for i := range storm {
		id := fmt.Sprint(i)
		edge.Append(request(id, analytics.PhaseBegin, ""))
		edge.Append(request(id, analytics.PhaseEnd, analytics.OutcomeCompleted))
		edge.Append(refusal("no" + id))
	}
	for i := range inferences {
		ams.Append(inference(fmt.Sprint("bill", i), analytics.PhaseEnd))
		edge.Append(inference(fmt.Sprint("too", i), analytics.PhaseEnd))
	}
	if s := ams.Stats(); s.Appended != inferences || s.Dropped.Total()+s.Errors != 0 {
		t.Errorf("the colo's inferences: %+v", s)
	}
	s := edge.Stats()
	if s.Dropped.Billing != 0 || s.Errors != 0 || s.Dropped.Refusals == 0 {
		t.Errorf("the entry's events: %+v", s)
	}
	got, bad := read(t, c.Dir)
	newest := map[analytics.Outcome]string{}
	kept := map[analytics.Kind]int{}
	for _, e := range got {
		kept[e.Kind]++
		if e.Kind == analytics.KindRequest {
			newest[e.Outcome] = e.RequestID
		}
	}
	if kept[analytics.KindInference] != 2*inferences || bad != 0 {
		t.Errorf("%d inferences of %d are on the disk; %d bad lines", kept[analytics.KindInference], 2*inferences, bad)
	}
	if dropped := s.Dropped.Requests + s.Dropped.Refusals; kept[analytics.KindRequest]+int(dropped) != 2*storm {
		t.Errorf("%d requests on the disk and %d dropped, of %d", kept[analytics.KindRequest], dropped, 2*storm)
	}
	if last := fmt.Sprint(storm - 1); newest[analytics.OutcomeCompleted] != last || newest[analytics.OutcomeRefused] != "no"+last {
		t.Errorf("the newest on the disk are %v, want %s", newest, last)
	}
}

// A loss is reported, with its cause and its count; events that were written, and refusals that are dropped at the bound, are not.
func TestProblemsReportLosses(t *testing.T) {
	c := journal.Config{Dir: t.TempDir(), SegmentBytes: 1 << 10, MaxBytes: 16 << 10}
	l := open(t, c)
	for i := range 200 {
		l.Append(refusal(fmt.Sprint(i)))
	}
	if s, problems := l.Stats(), l.Problems(); s.Dropped.Refusals == 0 || len(problems) != 0 {
		t.Fatalf("%v for %+v", problems, s)
	}
	for i := range 200 {
		l.Append(inference(fmt.Sprint(i), analytics.PhaseEnd))
	}
	s, problems := l.Stats(), l.Problems()
	if want := fmt.Sprintf("inferences, %d since the start", s.Dropped.Billing); len(problems) != 1 || !strings.Contains(problems[0].Error(), want) ||
		!strings.Contains(problems[0].Error(), "bound of 16384 bytes") {
		t.Errorf("%v, want one with %q and the bound", problems, want)
	}
	closeLog(t, l)
	appended := l.Stats().Appended
	l.Append(request("late", analytics.PhaseEnd, analytics.OutcomeCompleted))
	if s := l.Stats(); s.Appended != appended || s.Dropped.Requests != 1 {
		t.Errorf("an event that was not written counts as appended: %+v", s)
	}
	if problems := l.Problems(); len(problems) != 2 || !strings.Contains(problems[1].Error(), "ends of requests, 1 since the start") {
		t.Errorf("%v, want a second one", problems)
	}
	l.Append(request("later", analytics.PhaseBegin, ""))
	if problems := l.Problems(); len(problems) != 3 || !strings.Contains(problems[2].Error(), "begins of requests, 1 since the start") {
		t.Errorf("%v, want a third one", problems)
	}
	if dropped := l.Stats().Dropped.Total(); dropped != s.Dropped.Total()+1 {
		t.Errorf("%d events were dropped, want %d: a begin is no event that a reader misses", dropped, s.Dropped.Total()+1)
	}
}
