package sdk

import (
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

const goProgram = "go/bin/queued"

// The SDKs read streams through a queue and ignore the comments in them, and raise their own error when a request is
// refused.
func TestQueueEvents(t *testing.T) {
	f := startFleet(t, true)
	holdBusy(t, f)
	env := []string{"COLONNADE_QUEUED_MODEL=queued", "COLONNADE_BUSY_MODEL=busy"}
	queued := func(installed, name string, args ...string) {
		t.Helper()
		t.Run(name+" "+strings.Join(args, " "), func(t *testing.T) {
			needs(t, installed)
			before := waited(t, f.Entry.DataDir)
			out, err := script(t, f, env, name, args...)
			if err != nil || !strings.Contains(out, "ok ") {
				t.Errorf("%v\n%s", err, out)
			}
			if n := waited(t, f.Entry.DataDir) - before; n < 6 { // three of every four
				t.Errorf("%d streams have waited, want six and more\n%s", n, out)
			}
		})
	}
	queued(js, node, "js/queued.mjs")
	queued(python, python, "python/queued.py")
	queued(goProgram, "./"+goProgram)
}

// waited counts the streams that were served after a wait.
func waited(t *testing.T, events string) (n int) {
	t.Helper()
	for e, err := range journal.ReadDir(events) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == analytics.KindRequest && e.Phase == analytics.PhaseEnd && e.Outcome == analytics.OutcomeCompleted && e.QueuingTime > 0 {
			n++
		}
	}
	return n
}
