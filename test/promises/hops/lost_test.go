package hops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// loss is a connection that is lost on the way of a request, which the first colo has no room for.
type loss struct {
	model        string
	from, server string // of the connection
	fault        faultproxy.Fault
}

func (l loss) String() string {
	return fmt.Sprintf("%s, %s to %s, %s", l.model, l.from, l.server, l.fault.Kind)
}

func (l loss) id() string {
	return strings.NewReplacer(", ", "-", " ", "-").Replace(l.String())
}

// losses are all ways to lose one of two hops: with the first, the middle colo has the request; with the second, the last one.
func losses() (all []loss) {
	for _, fault := range []faultproxy.Fault{
		{Kind: faultproxy.Reset}, {Kind: faultproxy.HalfClose, Way: faultproxy.ToClient}, {Kind: faultproxy.Cut}, {Kind: faultproxy.Stall},
	} {
		all = append(all,
			loss{onward, onebox.EntryPlace, "ams-1", fault},
			loss{onward, "ams", "fra-1", fault},
			loss{walk, onebox.EntryPlace, "fra-1", fault})
	}
	return all
}

// inject breaks the connection. heal ends what lasts.
func (l loss) inject(f *farFleet) (heal func()) {
	p := f.Proxy(l.from, l.server)
	if l.fault.Kind == faultproxy.Stall {
		p.Inject(l.fault)
	} else {
		p.InjectOpen(l.fault)
	}
	return p.Heal
}

// first reports whether the first of two hops is lost.
func (l loss) first() bool { return l.server == "ams-1" }

// A request whose server is lost before it answers is sent to another one: once more, and no engine gets it twice. All permits are free
// once the servers can know it.
func TestHopLostBeforeFirstByte(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(2), noSpill, "")
	f.fill("ams")
	for _, l := range losses() {
		f.awaitWay(l.model)
		f.Engine("fra").SetFault(simengine.Fault{Model: "demo-chat", Fault: simengine.FaultStallHead, Count: 1})
		c := f.BeginChat(chat(l.model, 2, true), "x-request-id: "+l.id())
		testkit.WaitFor(t, "the engine to have the request", func() bool { return fleettest.InFlight(f.Engine("fra")) == 1 })
		heal := l.inject(f)
		a := c.Read()
		path, engines, want := "ams, fra, iad", []string{"fra", "iad"}, []string{"request entry-1 completed", "inference fra-1 client_gone", "inference iad-1 completed"}
		switch {
		case l.first(): // the entry does not know that the next colo has the request
			path, engines, want[2] = "ams, fra", []string{"fra", "fra"}, "inference fra-1 completed"
			want = append(want, "forward ams-1 client_gone")
		case l.model == onward:
			want = append(want, "forward ams-1 engine_error")
		}
		if got := a.Header.Get("x-colonnade-colo-path"); a.Status != 200 || a.Err != nil || !a.Complete() || got != path {
			t.Errorf("%v: answer %d %v over %s, want it over %s: %.300q", l, a.Status, a.Err, got, path, a.Body)
		}
		if got := f.received(a.Header.Get("x-request-id")); !slices.Equal(got, engines) {
			t.Errorf("%v: the engines of %v got the request, want %v", l, got, engines)
		}
		heal()
		f.freeSoon("fra", "iad")
		f.expectEvents(l.id(), want...)
	}
}

// A request that waits in a colo that is lost has not reached an engine, and waits nowhere else: another colo serves it, and an engine gets it
// once.
func TestHopLostWhileQueued(t *testing.T) {
	t.Parallel()
	f, release := startQueued(t)
	for _, l := range losses() {
		f.awaitWayToQueue(l.model)
		c := f.BeginChat(chat(l.model, 2, true), "x-request-id: "+l.id())
		testkit.WaitFor(t, "the request to wait in fra", func() bool { return f.Pool("fra", "demo").Queued == 1 })
		lost := time.Now()
		heal := l.inject(f)
		if l.first() && l.fault.Kind != faultproxy.Stall { // it may wait in fra again, or find its first place taken
			testkit.WaitFor(t, "the request to be elsewhere", func() bool {
				got, _ := f.events(l.id())
				return slices.Contains(got, "forward ams-1 client_gone")
			})
			testkit.WaitFor(t, "fra to know that its first place is not needed", func() bool {
				oldest := f.Pool("fra", "demo").Queue.OldestMillis
				return oldest == nil || time.Duration(*oldest)*time.Millisecond < time.Since(lost)
			})
			release()
		}
		a := c.Read()
		heal()
		if l.first() && l.fault.Kind != faultproxy.Stall {
			release = f.fill("fra")
		}
		by := a.Header.Get("x-colonnade-colo")
		if a.Status != 200 || a.Err != nil || !a.Complete() || by == "ams" {
			t.Errorf("%v: answer %d %v by %s: %.300q", l, a.Status, a.Err, by, a.Body)
		}
		if got := f.received(a.Header.Get("x-request-id")); !slices.Equal(got, []string{by}) {
			t.Errorf("%v: the engines of %v got the request", l, got)
		}
		testkit.WaitFor(t, "the queue to be empty", func() bool { return f.Pool("fra", "demo").Queued == 0 })
		want := []string{"request entry-1 completed", "inference " + by + "-1 completed"}
		if got, _ := f.events(l.id()); slices.Contains(got, "inference fra-1 client_gone") { // it got a permit just before fra knew of its end
			want = append(want, "inference fra-1 client_gone")
		}
		switch {
		case l.first():
			want = append(want, "forward ams-1 client_gone")
			if by == "iad" { // fra had no room for it a second time
				want = append(want, "forward fra-1 completed")
			}
		case l.model == onward:
			want = append(want, "forward ams-1 engine_error")
		}
		f.expectEvents(l.id(), want...)
	}
}

// A stream whose hop is lost after the first byte ends with the error event of its API and without a proper end. No engine gets it again.
func TestHopLostMidStream(t *testing.T) {
	t.Parallel()
	idle := time.Duration(testkit.AtScale(4000, 700)) * time.Millisecond // longer than a busy machine interrupts a stream
	f := startFar(t, fleettest.SteadyEngine(2), noSpill, fmt.Sprintf("---\nkey: defaults\nmodel: {timeouts: {connect: 30s, idle: %v}}\n", idle))
	f.fill("ams")
	for n, l := range losses() {
		f.awaitWay(l.model)
		c := f.BeginChat(chat(l.model, 1000, true), "x-request-id: "+l.id())
		var head wiretest.Response
		if err := c.ReadHead(&head); err != nil || head.Status != 200 {
			t.Fatalf("%v: %d %v", l, head.Status, err)
		}
		c.ReadUntil(`"delta":{"content":`, 1+n%3)
		heal := l.inject(f)
		rest, err := c.ReadChunked()
		if err == nil || strings.Count(rest, `data: {"error"`) != 1 || strings.Contains(rest, "[DONE]") {
			t.Errorf("%v: the stream ended with %v, %.300q; want an error event and no end", l, err, rest[max(0, len(rest)-300):])
		}
		heal()
		f.freeSoon("fra", "iad")
		if got := f.received(head.Header.Get("x-request-id")); !slices.Equal(got, []string{"fra"}) {
			t.Errorf("%v: the engines of %v got the request", l, got)
		}
		ended, gone := "engine_error", "client_gone"
		if l.fault.Kind == faultproxy.Stall {
			ended = "timeout"
		}
		want := []string{"request entry-1 " + ended, "inference fra-1 " + gone}
		switch {
		case l.first():
			want = append(want, "forward ams-1 "+gone)
		case l.model == onward:
			want = append(want, "forward ams-1 "+ended)
		}
		f.expectEvents(l.id(), want...)
	}
}
