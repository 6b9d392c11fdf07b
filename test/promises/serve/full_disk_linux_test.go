package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/analytics"
	"colonnade/internal/oracle"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// limitFiles bounds the size of each file that the process writes, as a full disk does.
func limitFiles(t *testing.T, n *proctest.Node, size uint64) {
	t.Helper()
	if err := unix.Prlimit(n.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Skipf("cannot limit the files of a process: %v", err)
	}
}

// While no event can be written, requests are served, and each lost event is counted. Afterwards, each request has one final event again.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	f, n := start(t, smallPools())
	load := f.Drive(mixedLoad())
	load.WaitServed(t, 3)
	dropped := func() (total int) {
		_, page := n.Get("/metrics")
		for line := range strings.Lines(page) {
			var count int
			if rest, ok := strings.CutPrefix(line, "colonnade_events_dropped_total{"); ok {
				if _, err := fmt.Sscan(rest[strings.Index(rest, "}")+1:], &count); err != nil {
					t.Fatal(err)
				}
			}
			total += count
		}
		return total
	}
	limitFiles(t, n, 10)
	load.WaitServed(t, 5)
	// Several, since the first may be the beginning of a request whose end is kept.
	testkit.WaitFor(t, "lost events to be counted", func() bool { return dropped() >= 10 })
	if status, body := n.Get("/debug/check"); status == 200 {
		t.Errorf("/debug/check does not report the lost events: %s", body)
	}
	limitFiles(t, n, unix.RLIM_INFINITY)
	room := time.Now()
	load.WaitServed(t, 5)
	results := load.Stop()
	results.Check(t)
	n.Leave()
	events, err := oracle.ReadEvents(n.Dir)
	if err != nil {
		t.Fatal(err)
	}
	finals, inferences := map[string]int{}, map[string]int{}
	for _, e := range events.Ends {
		if e.Kind == analytics.KindRequest {
			finals[e.ClientRequestID]++
		} else {
			inferences[e.ClientRequestID]++
		}
	}
	lost := 0
	for _, r := range results {
		if n := finals[r.ID]; n > 1 || n == 0 && r.Began.After(room) && r.Status != 0 {
			t.Errorf("%d final events of %v", n, r)
		} else if n == 0 && r.Status != 0 || inferences[r.ID] == 0 && r.Status == 200 {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no event was lost, so the disk was not full")
	}
}
