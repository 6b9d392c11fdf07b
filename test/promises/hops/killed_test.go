package hops_test

import (
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/oracle"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// killedFleet has the colos ams, fra and iad, each a process of its own with four slots. ams forwards requests to fra when it is full, and fra
// to iad.
type killedFleet struct {
	*proctest.Fleet
	all proctest.Results
}

// The process of a colo ends at once (SIGKILL) while it forwards requests. Those without a first byte are served by other colos, streams end
// with an error event, and nothing is held anywhere afterwards. An engine generates to the end once for each request, although requests were sent again.
func TestMiddleColoIsKilled(t *testing.T) {
	t.Parallel()
	f := &killedFleet{Fleet: proctest.Start(t, proctest.Config{
		Colos: []string{"ams", "fra", "iad"}, Away: 20 * time.Millisecond, ITL: 10 * time.Millisecond,
		Documents: "---\nkey: pools/pool-1\nqueue: {limit: 2000, per_account: 2000, max_wait: 2m, spill_wait: 0s}\n",
	})}
	for range testkit.AtScale(1, 20) {
		f.killInTheMiddle()
	}
	f.CheckPeaks()
	f.checkGenerations()
	f.End(f.all)
}

// killInTheMiddle kills the server of ams while it serves four streams, and forwards three further ones and three plain requests. It starts the server
// again.
func (f *killedFleet) killInTheMiddle() {
	f.T.Helper()
	ams, before := f.Server("ams-1"), f.forwards()
	own := f.begin(proctest.Long, 4)
	testkit.WaitFor(f.T, "ams to be full", func() bool { return f.running("ams") == 4 })
	streams, plain := f.begin(proctest.Long, 3), f.begin(proctest.LongPlain, 3)
	testkit.WaitFor(f.T, "requests to run in the next colos", func() bool { return f.running("fra", "iad") == 6 })
	own.WaitBegun(f.T, 4)
	streams.WaitBegun(f.T, 3)
	ams.Kill()
	if n := f.forwards() - before; n != 6 {
		f.T.Errorf("ams has forwarded %d requests, want 6", n)
	}
	f.end(own, 4)
	f.end(streams, 3)
	f.end(plain, 0)
	f.CheckRest()
	ams.Start()
	f.WaitReady()
	testkit.WaitFor(f.T, "ams to serve again", func() bool {
		before := f.engine("ams").Stats().Served
		f.all = append(f.all, f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 1}, Requests: 1}).Stop()...)
		return f.engine("ams").Stats().Served > before
	})
}

// begin sends n requests of a second each, or of five where a busy machine may take a second until the next colo knows that ams has ended.
func (f *killedFleet) begin(kind proctest.Kind, n int) *proctest.Load {
	return f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{kind: n}, LongTokens: testkit.AtScale(500, 100), Requests: 1})
}

// end waits for the answers of a load. So many must have been cut, and the others are complete.
func (f *killedFleet) end(l *proctest.Load, cut int) {
	f.T.Helper()
	results := l.Stop()
	results.Check(f.T, proctest.Cut)
	if got := results.Count(proctest.Cut); got != cut {
		f.T.Errorf("%d streams were cut, want %d: %v", got, cut, results)
	}
	f.all = append(f.all, results...)
}

func (f *killedFleet) engine(colo string) *proctest.Engine {
	for _, e := range f.Engines {
		if e.Colo == colo {
			return e
		}
	}
	f.T.Fatalf("no engine is in %s", colo)
	return nil
}

// running returns how many requests run in colos.
func (f *killedFleet) running(colos ...string) (n int) {
	for _, colo := range colos {
		n += f.engine(colo).Stats().Running
	}
	return n
}

// forwards returns how many requests ams has forwarded so far.
func (f *killedFleet) forwards() (n int) {
	f.T.Helper()
	events, err := oracle.ReadEvents(f.Server("ams-1").Dir)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, e := range events.Begins {
		if e.Kind == analytics.KindForward {
			n++
		}
	}
	return n
}

// checkGenerations fails the test unless engines have generated one answer to its end for each request that was served, and none for any other.
func (f *killedFleet) checkGenerations() {
	f.T.Helper()
	whole := map[string]int{}
	for _, e := range f.Engines {
		for _, job := range e.Jobs() {
			if job.Served {
				whole[job.Prompt]++
			}
		}
	}
	for _, r := range f.all {
		want := 0
		if r.Outcome == proctest.Complete {
			want = 1
		}
		if got := whole[r.ID]; got != want {
			f.T.Errorf("engines have generated %d answers to the end, want %d: %v", got, want, r)
		}
	}
}
