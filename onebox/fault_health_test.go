package onebox_test

import (
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// state returns what the colo makes of an engine.
func (f *testFleet) state(url string) string {
	for _, e := range f.pool("ams", "demo").Endpoints {
		if e.URL == url {
			return e.State
		}
	}
	return ""
}

// An engine that begins every answer and cuts it is taken out, and the other one is left alone.
func TestEngineThatCutsStreamsIsEjected(t *testing.T) {
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engines: 2, Engine: quick(4)}, "")
	f.watch(8)
	f.Engines[0].Simulated.SetFault(simengine.Fault{Fault: simengine.FaultCutAtChunk})
	for n := 0; f.state(f.Engines[0].URL) != "ejected"; n++ {
		if n == 40 {
			t.Fatalf("the engine has cut %d streams and is still %q", f.Engines[0].Simulated.Stats().Faulted, f.state(f.Engines[0].URL))
		}
		_ = f.chat(chatBody(8, true))
	}
	if s := f.state(f.Engines[1].URL); s != "up" {
		t.Errorf("the good engine is %q", s)
	}
}

// That clients do not want to wait as long as an engine takes says nothing about the engine.
func TestClientsHurryDoesNotEject(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{
		Colos: []string{"ams"}, Engines: 2, Engine: simengine.Config{Slots: 8, TTFT: 2 * time.Second, ITL: time.Millisecond},
	}, "key: models/demo-chat\npool: demo\ntimeouts: {first_byte: 100ms}")
	f.watchBeside(8)
	for range 12 {
		if a := f.chat(chatBody(2, false), "x-colonnade-deadline-ms", "250"); a.Status != 504 {
			t.Fatalf("answer %d %q, want 504: the engine takes two seconds", a.Status, a.Body)
		}
	}
	for _, e := range f.Engines {
		if s := f.state(e.URL); s != "up" {
			t.Errorf("engine %s is %q for its clients' hurry", e.ID, s)
		}
	}
}

// What a request is said to have queued is the time in queues, at the entry as in the colo.
func TestQueuingTimeIsTheQueues(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{
		Colos: []string{"ams"}, Engine: simengine.Config{Slots: 1, TTFT: 300 * time.Millisecond, ITL: time.Millisecond},
	}, "")
	f.watchBeside(8)
	first := f.begin(chatBody(4, false), "x-request-id: first-one")
	testkit.WaitFor(t, "the slot to be taken", func() bool { return f.pool("ams", "demo").Held == 1 })
	second := f.chat(chatBody(4, false), "x-request-id", "second-one")
	first.read()
	first.Close()
	if second.Status != 200 {
		t.Fatalf("answer %d %q", second.Status, second.Body)
	}
	there := f.end(analytics.KindInference, "second-one").QueuingTime.Std()
	here := f.end(analytics.KindRequest, "second-one").QueuingTime.Std()
	if there < 10*time.Millisecond || (there-here).Abs() > 2*time.Millisecond {
		t.Errorf("queued for %s by the colo's event, %s by the entry's", there, here)
	}
	if q := f.end(analytics.KindRequest, "first-one").QueuingTime.Std(); q != 0 {
		t.Errorf("the first request is said to have queued for %s", q)
	}
}

// A request that an ending fleet had to cut off before its first byte was drained, not refused.
func TestDrainedBeforeTheFirstByte(t *testing.T) {
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: quick(2), Drain: 200 * time.Millisecond}, "")
	f.fault(simengine.FaultStallHead, 0)
	w := f.begin(chatBody(2, false), "x-request-id: cut-off-1")
	defer w.Close()
	testkit.WaitFor(t, "the request to be at the engine", func() bool { return f.pool("ams", "demo").Held == 1 })
	f.stop()
	if a := w.read(); a.Status != 503 {
		t.Errorf("answer %d %q, want 503", a.Status, a.Body)
	}
	if e := f.end(analytics.KindRequest, "cut-off-1"); e.Outcome != analytics.OutcomeDrained {
		t.Errorf("outcome %q, want drained", e.Outcome)
	}
}
