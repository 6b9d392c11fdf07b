package traces_test

import (
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	sampledSpan  = "00-" + clientTrace + "-" + clientSpan + "-01"
	ignoredSpan  = "00-" + clientTrace + "-" + clientSpan + "-00"
	clientState  = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
	traceParent  = hop.HeaderTraceParent
	traceState   = hop.HeaderTraceState
	notATrace    = "00-" + clientTrace + "-0000000000000000-01"
	neverSampled = "parentbased_always_off"
)

// A client that traces has our spans under its own. Its tracestate reaches the engine and is exported nowhere.
func TestSpansUnderTheClients(t *testing.T) {
	f := start(t, quick(), "", "OTEL_TRACES_SAMPLER", neverSampled)
	a := f.Chat(fleettest.ChatBody(1, false), traceParent, sampledSpan, traceState, clientState, "x-request-id", "of-a-tracer")
	tr := f.await(clientTrace, 3)
	entry, engine := tr.find("entry", ""), tr.find("engine", "")
	expectTree(t, clientSpan, entry, tr.find("hop", ""), entry, engine, tr.find("hop", ""))
	expect(t, entry, "colonnade.request_id", requestID(a))
	got := f.lastReceived("ams").Header
	if got.Get(traceParent) != "00-"+clientTrace+"-"+engine.ID+"-01" || got.Get(traceState) != clientState {
		t.Errorf("the engine got %v", got)
	}
	if e := f.FinalEvent(analytics.KindRequest, "of-a-tracer"); e.TraceID != clientTrace {
		t.Errorf("the event has the trace %q", e.TraceID)
	}
	for _, part := range strings.Split(clientState, ",") {
		if strings.Contains(string(f.spans.Raw()), part) {
			t.Errorf("exported: %s", part)
		}
	}
}

// A client that has decided against recording is obeyed, and the engine gets what the client has said.
func TestUnsampledParent(t *testing.T) {
	f := start(t, quick(), "")
	f.Chat(fleettest.ChatBody(1, false), traceParent, ignoredSpan, traceState, clientState, "x-request-id", "not-sampled")
	got := f.lastReceived("ams").Header
	if got.Get(traceParent) != ignoredSpan || got.Get(traceState) != clientState {
		t.Errorf("the engine got %v", got)
	}
	if e := f.FinalEvent(analytics.KindInference, "not-sampled"); e.TraceID != "" {
		t.Errorf("the event has the trace %q", e.TraceID)
	}
	f.noSpans(clientTrace)
}

// A header that is not valid begins a new trace, and what it says reaches no engine. So does tracestate without a valid traceparent.
func TestMalformedTraceparent(t *testing.T) {
	f := start(t, quick(), "")
	for _, header := range []string{notATrace, "00-" + clientTrace, "canary", strings.ToUpper(sampledSpan), "ff" + sampledSpan[2:], sampledSpan + "-x"} {
		a := f.Chat(fleettest.ChatBody(1, false), traceParent, header, traceState, clientState)
		tr := f.await(requestID(a), 3)
		expectTree(t, "", tr.find("entry", ""))
		got := f.lastReceived("ams").Header
		if !strings.HasPrefix(got.Get(traceParent), "00-"+requestID(a)+"-") || got.Get(traceState) != "" {
			t.Errorf("%q: the engine got %v", header, got)
		}
	}
	if found := f.spans.Spans(clientTrace); found != nil {
		t.Errorf("exported: %v", found)
	}
}

// A request that is not sampled is exported by no node, and the engine learns so. A sampler that does not go by the parent decides alone.
func TestSamplerDecides(t *testing.T) {
	var f *traced
	t.Cleanup(func() { // after the nodes have exported what they had
		if found := f.spans.Spans(""); len(found) > 0 {
			t.Errorf("exported: %v", found)
		}
	})
	f = start(t, quick(), "", "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0")
	a := f.Chat(fleettest.ChatBody(1, false), "x-request-id", "not-sampled")
	got := f.lastReceived("ams").Header.Get(traceParent)
	if !strings.HasPrefix(got, "00-"+requestID(a)+"-") || !strings.HasSuffix(got, "-00") {
		t.Errorf("the engine got %q", got)
	}
	f.Chat(fleettest.ChatBody(1, false), traceParent, sampledSpan)
	got = f.lastReceived("ams").Header.Get(traceParent)
	if !strings.HasPrefix(got, "00-"+clientTrace+"-") || !strings.HasSuffix(got, "-00") || strings.Contains(got, clientSpan) {
		t.Errorf("the engine got %q", got)
	}
	if e := f.FinalEvent(analytics.KindRequest, "not-sampled"); e.TraceID != "" {
		t.Errorf("the event has the trace %q", e.TraceID)
	}
}

// Without the variables, both headers are passed on as they came, whatever they say, and nothing else is there.
func TestWithoutVariables(t *testing.T) {
	c := quick()
	c.Engine.Record = 10
	f := fleettest.Start(t, c, "")
	f.Watch(8)
	for _, header := range []string{sampledSpan, ignoredSpan, notATrace, ""} {
		f.Chat(fleettest.ChatBody(1, false), traceParent, header, traceState, clientState, "x-request-id", "without-variables")
		all := f.Engine("ams").Received()
		if got := all[len(all)-1].Header; got.Get(traceParent) != header || got.Get(traceState) != clientState {
			t.Errorf("%q: the engine got %v", header, got)
		}
	}
	f.Chat(fleettest.ChatBody(1, false), "x-request-id", "the-last-one")
	if e := f.FinalEvent(analytics.KindRequest, "the-last-one"); e.TraceID != "" {
		t.Errorf("the event has the trace %q", e.TraceID)
	}
	if all := f.Engine("ams").Received(); all[len(all)-1].Header.Get(traceParent) != "" {
		t.Errorf("the engine got %v", all[len(all)-1].Header)
	}
	if strings.Contains(f.EntryMetrics(), "colonnade_trace") {
		t.Error("there are metrics of spans")
	}
}

// A colo without room sends a request on to the next: its hop is a span under that of the entry, and the engine's is under both. Each node
// exports its own, and the client's choice of colos by the entry alone has the hops side by side.
func TestSpansOverSeveralColos(t *testing.T) {
	fleettest.NeedsFleet(t, "several colos")
	f := start(t, farApart(), farDocuments)
	f.Engine("ams").SetPace(time.Millisecond, 10*time.Second) // the stream lasts longer than the test
	blocker := f.LongStream("only-ams")
	a := f.Chat(strings.Replace(fleettest.ChatBody(2, false), "demo-chat", "onward", 1))
	if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" {
		t.Fatalf("%d from %s: %s", a.Status, a.Header.Get("x-colonnade-colo"), a.Body)
	}
	tr := f.await(requestID(a), 4)
	entry, first, second, engine := tr.find("entry", "entry-1"), tr.find("hop", "entry-1"), tr.find("hop", "ams-1"), tr.find("engine", "fra-1")
	expectTree(t, "", entry, first, entry, second, first, engine, second)
	expect(t, first, "colonnade.colo", "ams", "colonnade.server", "ams/ams-1", "colonnade.verdict", nil, "error.type", nil)
	expect(t, second, "colonnade.colo", "fra", "colonnade.server", "fra/fra-1", "colonnade.request_id", requestID(a), "error.type", nil)
	expect(t, entry, "colonnade.colo", "fra")

	a = f.Chat(strings.Replace(fleettest.ChatBody(2, false), "demo-chat", "walk", 1))
	tr = f.await(requestID(a), 4)
	hops := tr.all("hop", "entry-1")
	if len(hops) != 2 {
		t.Fatalf("spans:\n%v", tr)
	}
	entry = tr.find("entry", "")
	expectTree(t, "", entry, hops[0], entry, hops[1], entry, tr.find("engine", "fra-1"), hops[1])
	expect(t, hops[0], "colonnade.colo", "ams", "colonnade.verdict", "ooc", "colonnade.reason", "busy")
	expect(t, hops[1], "colonnade.colo", "fra", "colonnade.verdict", nil)
	blocker.Close()
}

// farApart is two colos, next to each other and far from the entry, so that one sends a request on to the other.
func farApart() onebox.Config {
	patient := liveness.DefaultTimings()
	patient.GiveUpAfter, patient.ProbeTimeout = testkit.Timeout, testkit.Timeout
	return onebox.Config{
		Colos: []string{"ams", "fra"}, Engine: fleettest.SteadyEngine(1), Liveness: patient,
		Latency: onebox.Latency{
			onebox.Pair{onebox.EntryPlace, "ams"}: 14e6, onebox.Pair{onebox.EntryPlace, "fra"}: 14e6, onebox.Pair{"ams", "fra"}: 0,
		},
	}
}

const farDocuments = `key: pools/demo
queue: {limit: 0}
---
key: colos/ams
region: near
position: {lat: 50, lon: 5}
---
key: colos/fra
region: near
position: {lat: 50, lon: 5}
---
key: models/only-ams
pool: demo
upstream_name: demo-chat
routing: {steps: [{colos: [ams]}]}
---
key: models/onward
pool: demo
upstream_name: demo-chat
routing: {steps: [{colos: [ams]}, {colos: [fra]}]}
---
key: models/walk
pool: demo
upstream_name: demo-chat
retry: {forward_below: 0}
routing: {steps: [{colos: [ams]}, {colos: [fra]}]}
`

// A server that does not answer has a hop of its own, which has failed.
func TestSpanOfLostServer(t *testing.T) {
	fleettest.NeedsFleet(t, "several colos")
	f := start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(4)},
		"key: colos/far\n---\nkey: servers/far/far-1\naddress: "+testkit.Unreachable(t)+"\nboot: b\nstate: active\n---\n"+
			"key: models/lost\npool: demo\nupstream_name: demo-chat\nrouting: {steps: [{colos: [far]}, {colos: [ams]}]}\ntimeouts: {connect: 300ms}\n")
	a := f.Chat(strings.Replace(fleettest.ChatBody(1, false), "demo-chat", "lost", 1))
	if a.Status != 200 {
		t.Fatalf("%d: %s", a.Status, a.Body)
	}
	tr := f.await(requestID(a), 4)
	hops := tr.all("hop", "entry-1")
	if len(hops) != 2 || !hops[0].Failed || hops[1].Failed || tr.find("entry", "").Failed {
		t.Fatalf("spans:\n%v", tr)
	}
	expect(t, hops[0], "colonnade.colo", "far", "error.type", "not_connected")
}
