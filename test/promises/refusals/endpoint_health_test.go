package refusals_test

import (
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// An engine that cuts every stream is ejected, and the other one is not.
func TestCuttingEngineIsEjected(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engines: 2, Engine: fleettest.QuickEngine(4)}, "")
	f.Watch(8)
	f.Engines[0].Simulated.SetFault(simengine.Fault{Fault: simengine.FaultCutAtChunk})
	for n := 0; f.EndpointState(f.Engines[0].URL) != "ejected"; n++ {
		if n == 40 {
			t.Fatalf("the engine has cut %d streams and is still %q", f.Engines[0].Simulated.Stats().Faulted, f.EndpointState(f.Engines[0].URL))
		}
		_ = f.Chat(fleettest.ChatBody(8, true))
	}
	if s := f.EndpointState(f.Engines[1].URL); s != "up" {
		t.Errorf("the good engine is %q", s)
	}
}

// Deadlines and timeouts that are shorter than the engine's time to first token do not eject it.
func TestShortDeadlinesDoNotEject(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{
		Colos: []string{"ams"}, Engines: 2, Engine: simengine.Config{Slots: 8, TTFT: 2 * time.Second, ITL: time.Millisecond},
	}, "key: models/demo-chat\npool: demo\ntimeouts: {first_byte: 100ms}")
	f.WatchShared(8)
	for range 12 {
		if a := f.Chat(fleettest.ChatBody(2, false), "x-colonnade-deadline-ms", "250"); a.Status != 504 {
			t.Fatalf("answer %d %q, want 504: the engine takes two seconds", a.Status, a.Body)
		}
	}
	for _, e := range f.Engines {
		if s := f.EndpointState(e.URL); s != "up" {
			t.Errorf("engine %s is %q after short deadlines", e.ID, s)
		}
	}
}

// queuing_time_ms is the time in the queue alone, in the events of entry and colo.
func TestQueuingTime(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "")
	f.WatchShared(8)
	f.Chat(fleettest.ChatBody(4, false), "x-request-id", "first-one")
	blockers := f.BlockSlots(1)
	second := f.Enqueue(1, "x-request-id: second-one")
	time.Sleep(50 * time.Millisecond)
	fleettest.ServeAll(t, blockers, []*wiretest.Conn{second})
	there := f.FinalEvent(analytics.KindInference, "second-one").QueuingTime.Std()
	here := f.FinalEvent(analytics.KindRequest, "second-one").QueuingTime.Std()
	if there < 50*time.Millisecond || (there-here).Abs() > 2*time.Millisecond {
		t.Errorf("queued for %s by the colo's event, %s by the entry's", there, here)
	}
	if q := f.FinalEvent(analytics.KindRequest, "first-one").QueuingTime.Std(); q != 0 {
		t.Errorf("the first request is said to have queued for %s", q)
	}
}

// A request that a draining fleet ends before the first byte has the outcome drained, not refused.
func TestDrainedBeforeFirstByte(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(2), Drain: 200 * time.Millisecond}, "")
	f.InjectFault(simengine.FaultStallHead, 0)
	w := f.BeginChat(fleettest.ChatBody(2, false), "x-request-id: cut-off-1")
	defer w.Close()
	testkit.WaitFor(t, "the request to be at the engine", func() bool { return f.Pool("ams", "demo").Held == 1 })
	f.Stop()
	if a := w.Read(); a.Status != 503 {
		t.Errorf("answer %d %q, want 503", a.Status, a.Body)
	}
	if e := f.FinalEvent(analytics.KindRequest, "cut-off-1"); e.Outcome != analytics.OutcomeDrained {
		t.Errorf("outcome %q, want drained", e.Outcome)
	}
}
