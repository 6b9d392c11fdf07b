// Package otlptest receives spans by OTLP over HTTP and gRPC, as a collector does, for tests.
package otlptest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"colonnade/internal/testkit"
)

// Span is a span that has arrived.
type Span struct {
	Service, Instance string // of the process that has made it

	Trace, ID, Parent string // in hexadecimal; Parent is empty without one
	Name              string
	Kind              otlp.Span_SpanKind
	Start, End        time.Time
	Failed            bool
	Attributes        map[string]any
	State             string // tracestate
	Events, Links     int
	Message           string // of the status
}

// Text returns an attribute that is a string, or nothing.
func (s *Span) Text(name string) string {
	text, _ := s.Attributes[name].(string)
	return text
}

// Collector takes spans until its test has ended.
type Collector struct {
	*httptest.Server

	mu    sync.Mutex // guards the fields below
	spans []Span
	raw   bytes.Buffer // the bodies, uncompressed
	paths map[string]int
	heads []http.Header
	fail  func(http.ResponseWriter, *http.Request) bool
}

// Start starts a collector.
func Start(t testing.TB) *Collector {
	c := New()
	t.Cleanup(c.Close)
	return c
}

// New starts a collector that Close ends.
func New() *Collector {
	c := &Collector{paths: map[string]int{}}
	c.Server = httptest.NewServer(c)
	return c
}

// Fail calls fail for each request from now on, which reports whether it has answered the request; nil = the collector takes all.
func (c *Collector) Fail(fail func(http.ResponseWriter, *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

// ServeHTTP takes the spans of one request.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.paths[r.URL.Path]++
	c.heads = append(c.heads, r.Header)
	fail := c.fail
	c.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	if err := c.take(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (c *Collector) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			return err
		}
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if r.Header.Get("Content-Type") == "application/json" {
		err = unmarshalJSON(raw, &request)
	} else {
		err = proto.Unmarshal(raw, &request)
	}
	if err != nil {
		return err
	}
	c.keep(&request, raw)
	return nil
}

// keep keeps the spans of a request.
func (c *Collector) keep(request *collector.ExportTraceServiceRequest, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(raw)
	for _, of := range request.ResourceSpans {
		about := valuesOf(of.Resource.GetAttributes())
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{
					Service: fmt.Sprint(about["service.name"]), Instance: fmt.Sprint(about["service.instance.id"]),
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					Name: s.Name, Kind: s.Kind, Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
					Failed: s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR, Attributes: valuesOf(s.Attributes), State: s.TraceState,
					Events: len(s.Events), Links: len(s.Links), Message: s.Status.GetMessage(),
				})
			}
		}
	}
}

func valuesOf(list []*common.KeyValue) map[string]any {
	values := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			values[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			values[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			values[kv.Key] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			values[kv.Key] = v.BoolValue
		default:
			values[kv.Key] = v
		}
	}
	return values
}

// Spans returns the spans of a trace that have arrived; an empty trace means all.
func (c *Collector) Spans(trace string) (found []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if trace == "" || s.Trace == trace {
			found = append(found, s)
		}
	}
	return found
}

// Raw returns all that has arrived, uncompressed.
func (c *Collector) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.raw.Bytes())
}

// Requests returns how many requests there were for a path, and the header of the last request.
func (c *Collector) Requests(path string) (n int, last http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heads) > 0 {
		last = c.heads[len(c.heads)-1]
	}
	return c.paths[path], last
}

// Await waits until there are n spans of a trace, and returns them.
func (c *Collector) Await(t testing.TB, trace string, n int) []Span {
	t.Helper()
	testkit.WaitFor(t, fmt.Sprintf("%d spans of trace %s", n, trace), func() bool { return len(c.Spans(trace)) >= n })
	return c.Spans(trace)
}
