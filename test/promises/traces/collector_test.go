package traces_test

import (
	"net/http"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/otlptest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// spanCount returns the node's count of spans with a result.
func (f *traced) spanCount(result string) float64 {
	return f.Metric(f.Entry.Admin, `colonnade_trace_spans_total{result="`+result+`"}`)
}

// A collector that is killed delays no request. The spans that it does not take are counted, and those after its return arrive.
func TestCollectorIsKilled(t *testing.T) {
	f := start(t, quick(), "")
	f.await(requestID(f.Chat(fleettest.ChatBody(1, false))), 3)
	f.spans.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return false
		}
		c.Close()
		return true
	})
	for range 20 {
		if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	testkit.WaitFor(t, "spans that have failed", func() bool { return f.spanCount("failed") > 0 })
	f.spans.Fail(nil)
	f.await(requestID(f.Chat(fleettest.ChatBody(1, false))), 3)
	testkit.WaitFor(t, "all spans to be counted", func() bool {
		return f.spanCount("exported")+f.spanCount("failed") >= 22*2 && f.spanCount("dropped") == 0
	})
}

// A collector that does not answer delays no request, and the node keeps no more spans than it may; the others are counted. The end of the
// node waits for it no longer than two seconds.
func TestCollectorHangs(t *testing.T) {
	release := make(chan struct{})
	f := start(t, quick(), "", "OTEL_BSP_MAX_QUEUE_SIZE", "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
	f.spans.Fail(func(http.ResponseWriter, *http.Request) bool { <-release; return true })
	t.Cleanup(func() { close(release) }) // before the fleet ends: cleanups run backwards
	for range 50 {
		if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	testkit.WaitFor(t, "dropped spans", func() bool { return f.spanCount("dropped") >= 50*2-8-4 })
}

// Spans arrive by each protocol that the environment may ask for.
func TestProtocols(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "http/json", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			spans := otlptest.Start(t)
			url := spans.URL
			if protocol == "grpc" {
				url = spans.ServeGRPC(t)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
			f := &traced{Fleet: fleettest.Start(t, quick(), ""), spans: spans}
			tr := f.await(requestID(f.Chat(fleettest.ChatBody(1, false))), 3)
			entry, hop, engine := tr.find("entry", ""), tr.find("hop", ""), tr.find("engine", "")
			expectTree(t, "", entry, hop, entry, engine, hop)
			want := map[string]string{"http/protobuf": "application/x-protobuf", "http/json": "application/json", "grpc": ""}[protocol]
			if _, head := spans.Requests("/v1/traces"); head.Get("Content-Type") != want {
				t.Errorf("the spans came over HTTP as %q, want %q", head.Get("Content-Type"), want)
			}
		})
	}
}

// The end of a fleet exports what is left, without waiting for the next batch.
func TestEndExports(t *testing.T) {
	spans := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
	f := fleettest.Start(t, quick(), "")
	id := requestID(f.Chat(fleettest.ChatBody(1, false)))
	f.Shutdown()
	if found := spans.Spans(id); len(found) != 3 {
		t.Errorf("exported: %v", found)
	}
}

// A process that is an entry and a colo in one has the same spans, as one service.
func TestSpansOfServe(t *testing.T) {
	c := onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(4), Serve: true}
	f := start(t, c, "", "OTEL_SERVICE_NAME", "inference", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	tr := f.await(requestID(f.Chat(fleettest.ChatBody(1, true))), 3)
	entry, hop, engine := tr.find("entry", ""), tr.find("hop", ""), tr.find("engine", "")
	expectTree(t, "", entry, hop, entry, engine, hop)
	expect(t, hop, "server.address", nil, "colonnade.colo", "ams")
	for _, s := range tr.spans {
		if s.Service != "inference" || s.Instance != f.Entry.Node {
			t.Errorf("%s is of %s/%s", s.Name, s.Service, s.Instance)
		}
	}
	if !strings.Contains(string(f.spans.Raw()), "deployment.environment.name") {
		t.Error("the attributes of the resource are not exported")
	}
}
