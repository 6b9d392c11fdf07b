package traces_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"colonnade/internal/fleettest"
	"colonnade/internal/otlptest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
	"colonnade/tracing"
)

func TestMain(m *testing.M) {
	for _, variable := range os.Environ() { // of the shell that runs the tests
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	fleettest.Main(m)
}

// traced is a fleet whose spans a collector takes.
type traced struct {
	*fleettest.Fleet
	spans *otlptest.Collector
}

// start runs a fleet. Its nodes read the environment, so no such test is parallel to another. env are further variables and values in turn.
func start(t *testing.T, c onebox.Config, documents string, env ...string) *traced {
	t.Helper()
	spans := otlptest.Start(t)
	env = append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL, "OTEL_BSP_SCHEDULE_DELAY", "20"}, env...)
	for i := 0; i < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
	c.Engine.Record = 100
	f := fleettest.Start(t, c, documents)
	f.Watch(8)
	return &traced{Fleet: f, spans: spans}
}

// quick is one colo with quick engines.
func quick() onebox.Config { return fleettest.OneColo(fleettest.QuickEngine(4)) }

// trace is the spans of one request.
type trace struct {
	t     *testing.T
	spans []otlptest.Span
}

// await waits for n spans of a trace, and checks what holds for all spans.
func (f *traced) await(id string, n int) trace {
	t := f.T.(*testing.T)
	t.Helper()
	tr := trace{t, f.spans.Await(t, id, n)}
	slices.SortStableFunc(tr.spans, func(a, b otlptest.Span) int { return a.Start.Compare(b.Start) })
	if len(tr.spans) != n {
		t.Errorf("%d spans, want %d:\n%v", len(tr.spans), n, tr)
	}
	ids := map[string]bool{}
	for _, s := range tr.spans {
		if ids[s.ID] || s.End.Before(s.Start) || s.State != "" || s.Events+s.Links != 0 || s.Message != "" {
			t.Errorf("span %+v", s)
		}
		ids[s.ID] = true
		for name := range s.Attributes {
			if !tracing.IsAttribute(s.Text("colonnade.span"), name) {
				t.Errorf("the page does not say that a span %s has the attribute %s", s.Text("colonnade.span"), name)
			}
		}
	}
	return tr
}

// String is a line for each span.
func (tr trace) String() string {
	var b strings.Builder
	for _, s := range tr.spans {
		fmt.Fprintf(&b, "%s/%s %s %s<-%s %v %v\n", s.Service, s.Instance, s.Name, s.ID, s.Parent, s.End.Sub(s.Start), s.Attributes)
	}
	return b.String()
}

// find returns the only span that is described by words KIND, or KIND of NODE.
func (tr trace) find(kind, node string) otlptest.Span {
	tr.t.Helper()
	found := tr.all(kind, node)
	if len(found) != 1 {
		tr.t.Fatalf("%d spans %s of %s in\n%v", len(found), kind, node, tr)
	}
	return found[0]
}

// all returns the spans of a kind that a node has made; an empty node is any.
func (tr trace) all(kind, node string) (found []otlptest.Span) {
	for _, s := range tr.spans {
		if s.Text("colonnade.span") == kind && (node == "" || s.Instance == node) {
			found = append(found, s)
		}
	}
	return found
}

// expect compares attributes of a span, names and values in turn; nil = the span must not have it.
func expect(t *testing.T, s otlptest.Span, attributes ...any) {
	t.Helper()
	for i := 0; i < len(attributes); i += 2 {
		name, want := attributes[i].(string), attributes[i+1]
		if n, ok := want.(int); ok {
			want = int64(n)
		}
		if got := s.Attributes[name]; got != want {
			t.Errorf("span %s: %s is %v, want %v", s.Name, name, got, want)
		}
	}
}

// expectTree checks names, kinds and parents: pairs of a span and its parent, in which the first has the id of root as its parent.
func expectTree(t *testing.T, root string, pairs ...otlptest.Span) {
	t.Helper()
	if pairs[0].Parent != root {
		t.Errorf("the parent of %s is %q, want %q", pairs[0].Name, pairs[0].Parent, root)
	}
	for i := 1; i+1 < len(pairs); i += 2 {
		if pairs[i].Parent != pairs[i+1].ID {
			t.Errorf("the parent of %s of %s is %s, want %s of %s", pairs[i].Name, pairs[i].Instance, pairs[i].Parent, pairs[i+1].ID, pairs[i+1].Name)
		}
	}
	for _, s := range pairs {
		want := map[string]otlp.Span_SpanKind{"entry": otlp.Span_SPAN_KIND_SERVER, "queue": otlp.Span_SPAN_KIND_INTERNAL}[s.Text("colonnade.span")]
		if want == 0 {
			want = otlp.Span_SPAN_KIND_CLIENT
		}
		if s.Kind != want {
			t.Errorf("%s has the kind %v, want %v", s.Name, s.Kind, want)
		}
	}
}

// lastReceived returns the last request that the engine of a colo has received.
func (f *traced) lastReceived(colo string) simengine.Received {
	f.T.Helper()
	all := f.Engine(colo).Received()
	if len(all) == 0 {
		f.T.Fatal("the engine has received nothing")
	}
	return all[len(all)-1]
}

func requestID(a wiretest.Response) string { return a.Header.Get("x-request-id") }

// noSpans waits until a later request has been exported, and expects that a trace has no spans.
func (f *traced) noSpans(trace string) {
	f.T.Helper()
	testkit.WaitFor(f.T, "the spans of another request", func() bool {
		return len(f.spans.Spans(requestID(f.Chat(fleettest.ChatBody(1, false))))) > 0
	})
	if found := f.spans.Spans(trace); len(found) > 0 {
		f.T.Errorf("exported: %v", found)
	}
}
