package otlp_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/otlp"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

// receiver is a collector that keeps the records that it gets.
type receiver struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex // guards the fields below
	answer  func(w http.ResponseWriter, records []*logs.LogRecord) (taken bool)
	records []*logs.LogRecord
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body := request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(body)
	}
	data, _ := io.ReadAll(body)
	var export collector.ExportLogsServiceRequest
	if err := proto.Unmarshal(data, &export); err != nil || request.URL.Path != "/v1/logs" {
		http.Error(w, "no logs", http.StatusNotFound)
		return
	}
	var records []*logs.LogRecord
	for _, resource := range export.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			records = append(records, scope.GetLogRecords()...)
		}
	}
	if r.answer == nil || r.answer(w, records) {
		r.records = append(r.records, records...)
	}
}

// next sets how requests are answered.
func (r *receiver) next(answer func(http.ResponseWriter, []*logs.LogRecord) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// status refuses all with a status.
func status(code int, header ...string) func(http.ResponseWriter, []*logs.LogRecord) bool {
	return func(w http.ResponseWriter, _ []*logs.LogRecord) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, "because", code)
		return false
	}
}

// ids returns the ids of the events that have arrived, in order.
func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, record := range r.records {
		ids = append(ids, attributeOf(record, "colonnade.event_id"))
	}
	slices.Sort(ids)
	return ids
}

func attributeOf(r *logs.LogRecord, key string) string {
	for _, a := range r.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// has checks that the events from one number up to another have arrived, each once after repeated ones are removed.
func (r *receiver) has(from, to int) {
	r.t.Helper()
	if got := slices.Compact(r.ids()); !slices.Equal(got, sinktest.IDs(from, to)) {
		r.t.Fatalf("%d events have arrived, want %d", len(got), to-from)
	}
}

func open(t *testing.T, address, compression string, env sinks.Environment) *otlp.Sink {
	t.Helper()
	spec := sinktest.Spec(t, "otlp://"+address, "")
	spec.Compression = compression
	sink, err := otlp.Open(spec, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func (r *receiver) address() string { return r.server.Listener.Addr().String() }

func TestRecords(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // of traces, and not of sinks
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	r := newReceiver(t)
	for _, compression := range []string{"gzip", "none"} {
		sinktest.Send(t, open(t, r.address(), compression, sinks.Environment{}), sinktest.Batch(t, 0, 20))
	}
	r.has(0, 20)
	got := r.records[0]
	if got.GetTimeUnixNano() != uint64(sinktest.Began.UnixNano()) || got.GetBody().GetStringValue() != "inference completed" || got.GetEventName() != "colonnade.inference" {
		t.Errorf("got %v", got)
	}
	var texts []string
	for _, a := range got.GetAttributes() {
		texts = append(texts, a.GetKey()+"="+strings.Join(strings.Fields(a.GetValue().String()), ""))
	}
	all := strings.Join(texts, " ")
	for _, want := range []string{`colonnade.account=string_value:"acme"`, `colonnade.status=int_value:200`, `colonnade.request_time_ms=double_value:1.5`,
		`colonnade.streamed=bool_value:true`, `"ams/ams-1"`} {
		if !strings.Contains(all, want) {
			t.Errorf("the attributes lack %s: %s", want, all)
		}
	}
	if strings.Contains(all, "partial") || strings.Contains(all, "colonnade.key") {
		t.Errorf("attributes for what the event does not have: %s", all)
	}
	if !proto.Equal(r.records[0], r.records[20]) {
		t.Error("a repeated record differs")
	}
}

// A record about an engine says what has happened, and that an operator should look at it.
func TestRecordOfAnIncident(t *testing.T) {
	r := newReceiver(t)
	sinktest.Send(t, open(t, r.address(), "gzip", sinks.Environment{}), sinktest.BatchOf(t, "1-0", sinktest.Incident()))
	got := r.records[0]
	if got.GetBody().GetStringValue() != "engine gpu_xid" || got.GetEventName() != "colonnade.engine" || got.GetSeverityText() != "WARN" ||
		attributeOf(got, "colonnade.gpu") != "GPU-1" {
		t.Errorf("got %v", got)
	}
}

func TestAnswers(t *testing.T) {
	r := newReceiver(t)
	sink := open(t, r.address(), "gzip", sinktest.Secret("token"))
	rejected := func(code int) {
		t.Helper()
		r.next(status(code))
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 5), true, r.address(), "because")
	}
	rejected(400)
	rejected(413)
	rejected(422)
	fails := func(code int, want ...string) {
		t.Helper()
		r.next(status(code))
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 5), false, append(want, "because")...)
	}
	fails(401, "set credential=")
	fails(403, "set credential=")
	fails(404, "enable its OTLP receiver")
	fails(500)
	fails(302)
	for _, header := range []string{"7", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		r.next(status(503, "Retry-After", header))
		var retry *ship.RetryError
		if err := sink.Send(t.Context(), sinktest.Batch(t, 0, 5)); !errors.As(err, &retry) || retry.After < 7*time.Second {
			t.Errorf("Retry-After %s: got %v", header, err)
		}
	}
	r.next(nil)
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 5))
	r.has(0, 5)
}

// A collector that has taken all records but some gets none of them again; one that only warns has taken all.
func TestPartialSuccess(t *testing.T) {
	r := newReceiver(t)
	sink := open(t, r.address(), "gzip", sinks.Environment{})
	partial := func(lost int64, message string) func(http.ResponseWriter, []*logs.LogRecord) bool {
		return func(w http.ResponseWriter, _ []*logs.LogRecord) bool {
			answer, _ := proto.Marshal(&collector.ExportLogsServiceResponse{
				PartialSuccess: &collector.ExportLogsPartialSuccess{RejectedLogRecords: lost, ErrorMessage: message},
			})
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(answer)
			return true
		}
	}
	r.next(partial(2, "too old"))
	var rejected *ship.RejectedError
	err := sink.Send(t.Context(), sinktest.Batch(t, 0, 5))
	if !errors.As(err, &rejected) || rejected.Lost != 2 || !strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v", err)
	}
	r.next(partial(0, "slow down"))
	if err := sink.Send(t.Context(), sinktest.Batch(t, 5, 10)); err != nil {
		t.Errorf("a warning: %v", err)
	}
	r.has(0, 10)
}

func TestAwayAndSilent(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	sink := open(t, address, "gzip", sinks.Environment{})
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 5), false, address, "refused")
	r := newReceiver(t)
	proxy := testkit.NewProxyAt(t, address, r.address())
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 5))
	proxy.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 5, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	proxy.Heal()
	sinktest.Send(t, sink, sinktest.Batch(t, 5, 10))
	r.has(0, 10)
}

// A collector that takes a batch and dies before it says so gets it again; the ids tell.
func TestTakenAndDead(t *testing.T) {
	r := newReceiver(t)
	sink := open(t, r.address(), "gzip", sinks.Environment{})
	dead := false
	r.next(func(w http.ResponseWriter, records []*logs.LogRecord) bool {
		if !dead {
			dead = true
			r.records = append(r.records, records...)
			panic(http.ErrAbortHandler)
		}
		return true
	})
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 5))
	if n := len(r.ids()); n != 10 {
		t.Errorf("%d records have arrived, want each of 5 twice", n)
	}
	r.has(0, 5)
}

func TestSecret(t *testing.T) {
	got := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	defer server.Close()
	secrets := []string{"one", "two"}
	env := sinks.Environment{Credential: func() (string, error) {
		if len(secrets) == 0 {
			return "", errors.New("credential=env:X: it is not set")
		}
		secret := secrets[0]
		secrets = secrets[1:]
		return secret, nil
	}}
	sink := open(t, server.Listener.Addr().String(), "gzip", env)
	for _, want := range []string{"Bearer one", "Bearer two"} {
		sinktest.Send(t, sink, sinktest.Batch(t, 0, 1))
		if header := <-got; header != want {
			t.Errorf("got %q, want %q", header, want)
		}
	}
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 1), false, "credential=env:X")
}

func TestBadSettings(t *testing.T) {
	spec := sinktest.Spec(t, "otlp://host:4318", "")
	spec.Compression = "zstd"
	if _, err := otlp.Open(spec, sinks.Environment{}); err == nil || !strings.Contains(err.Error(), "compression=zstd: OTLP has gzip and none") {
		t.Errorf("got %v", err)
	}
	if _, err := otlp.Open(sinktest.Spec(t, "otlp:///x", ""), sinks.Environment{}); err == nil || !strings.Contains(err.Error(), "has no host") {
		t.Errorf("got %v", err)
	}
}

// The path of a collector may hold a token, so no error has it.
func TestErrorsWithoutThePath(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(refusing.Close)
	for _, address := range []string{"127.0.0.1:1", strings.TrimPrefix(refusing.URL, "http://")} {
		sink, err := otlp.Open(sinktest.Spec(t, "otlp://"+address+"/token/v1/logs", ""), sinks.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Send(t.Context(), sinktest.Batch(t, 0, 1)); err == nil || strings.Contains(err.Error(), "token/") || !strings.Contains(err.Error(), address) {
			t.Errorf("got %v", err)
		}
		_ = sink.Close()
	}
}
