package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/parquet-go/parquet-go"

	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/s3"
	"colonnade/internal/faultproxy"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

// store is an S3 in memory, with one bucket and one user.
type store struct {
	t       *testing.T
	server  *httptest.Server
	backend gofakes3.Backend
	dying   atomic.Bool // ends the connection instead of an answer
	refuses atomic.Bool // answers 400 to everything

	slow atomic.Pointer[chan struct{}] // answers once it is closed; nil = at once
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, backend: s3mem.New()}
	if err := s.backend.CreateBucket("events"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(s.backend).Server()
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=writer/") { // the fake itself knows no users
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>`)
			return
		}
		if s.refuses.Load() {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>InvalidRequest</Code><Message>not like this</Message></Error>`)
			return
		}
		if slow := s.slow.Load(); slow != nil {
			<-*slow
		}
		answer := httptest.NewRecorder()
		fake.ServeHTTP(answer, r)
		if s.dying.Load() {
			panic(http.ErrAbortHandler)
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *store) open(settings string) *s3.Sink {
	return open(s.t, "s3://events/prod", s.server.URL, settings, sinktest.Secret("writer:key"))
}

func open(t *testing.T, url, endpoint, settings string, env sinks.Environment) *s3.Sink {
	t.Helper()
	sink, err := s3.Open(sinktest.Spec(t, url, "endpoint="+endpoint+settings), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// files returns the names of all files, and the rows of all of them.
func (s *store) files() (names []string, rows []map[string]any) {
	s.t.Helper()
	list, err := s.backend.ListBucket("events", nil, gofakes3.ListBucketPage{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, object := range list.Contents {
		names = append(names, object.Key)
		got, err := s.backend.GetObject("events", object.Key, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		data, _ := io.ReadAll(got.Contents)
		got.Contents.Close()
		file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			s.t.Fatal(err)
		}
		reader := parquet.NewReader(file)
		for {
			row := map[string]any{}
			if err := reader.Read(&row); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				s.t.Fatal(err)
			}
			rows = append(rows, row)
		}
		_ = reader.Close()
	}
	return names, rows
}

// has checks that the store has the events from one number up to another, each once.
func (s *store) has(from, to int) {
	s.t.Helper()
	var ids []string
	_, rows := s.files()
	for _, row := range rows {
		ids = append(ids, row["event_id"].(string))
	}
	slices.Sort(ids)
	if !slices.Equal(ids, sinktest.IDs(from, to)) {
		s.t.Fatalf("the store has %d events, want %d", len(ids), to-from)
	}
}

func TestFiles(t *testing.T) {
	s := newStore(t)
	sink := s.open("")
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 60)) // half of them before 10:00
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 60)) // repeated
	s.has(0, 60)
	sinktest.Send(t, s.open(""), sinktest.Batch(t, 0, 90)) // after a restart, with more events
	s.has(0, 90)
	names, rows := s.files()
	id := sinktest.Event(0).EventID
	want := []string{"prod/date=2026-11-23/hour=09/ams-1-billing-1-0-" + id + ".parquet", "prod/date=2026-11-23/hour=10/ams-1-billing-1-0-" + id + ".parquet"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	first, second := rows[0], rows[1]
	if first["account"] != "acme" || first["status"] != int64(200) || first["cost"] != 0.25 || first["streamed"] != true {
		t.Errorf("got %v", first)
	}
	if second["cost"] != nil || second["cost_unit"] != nil || second["partial"] != false || second["reason"] != "queue_full" {
		t.Errorf("got %v", second)
	}
}

// A node whose data directory was lost begins with the same positions again: its files do not replace those of before.
func TestPositionsComeAgain(t *testing.T) {
	s := newStore(t)
	sink := s.open("")
	sinktest.Send(t, sink, sinktest.BatchOf(t, "billing-1-1", sinktest.Event(0), sinktest.Event(1)))
	sinktest.Send(t, sink, sinktest.BatchOf(t, "billing-1-1", sinktest.Event(2)))
	s.has(0, 3)
}

func TestAwayAndDead(t *testing.T) {
	s := newStore(t)
	proxy := testkit.NewProxy(t, s.server.Listener.Addr().String())
	proxy.Refuse()
	sink := open(t, "s3://events/prod", "http://"+proxy.Address, "", sinktest.Secret("writer:key"))
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 10), false, "endpoint=http://"+proxy.Address)
	proxy.Heal()
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	s.dying.Store(true) // takes the file, and dies before it says so
	sinktest.Fails(t, sink, sinktest.Batch(t, 10, 20), false, "endpoint=")
	s.dying.Store(false)
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	proxy.Inject(faultproxy.Fault{Kind: faultproxy.Stall, Way: faultproxy.ToClient})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 20, 30)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	proxy.Heal()
	sinktest.Send(t, sink, sinktest.Batch(t, 20, 30))
	s.has(0, 30)
}

func TestErrors(t *testing.T) {
	s := newStore(t)
	fails := func(sink *s3.Sink, want ...string) {
		t.Helper()
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 2), false, want...)
	}
	fails(open(t, "s3://none/prod", s.server.URL, "", sinktest.Secret("writer:key")), "bucket none", "create the bucket")
	fails(open(t, "s3://events/prod", s.server.URL, "", sinktest.Secret("wrong:key")), "bucket events", "check what credential names")
	fails(open(t, "s3://events/prod", s.server.URL, "", sinktest.Secret("writer")), "credential: must be ACCESS_KEY_ID:SECRET_ACCESS_KEY")
	unset := errors.New("credential=env:X: it is not set")
	fails(open(t, "s3://events/prod", s.server.URL, "", sinks.Environment{Credential: func() (string, error) { return "", unset }}), unset.Error())
	for _, endpoint := range []string{"minio:9000", "ftp://minio", "http://minio/path", "http://"} {
		if _, err := s3.Open(sinktest.Spec(t, "s3://events", "endpoint="+endpoint), sinks.Environment{}); err == nil || !strings.Contains(err.Error(), "endpoint="+endpoint+": must be a URL") {
			t.Errorf("%s: got %v", endpoint, err)
		}
	}
}

// A store that refuses a file keeps the batch, whatever the reason: a file is never one event.
func TestStoreThatRefuses(t *testing.T) {
	s := newStore(t)
	sink := s.open("")
	s.refuses.Store(true)
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 10), false, "bucket events", "not like this")
	s.refuses.Store(false)
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	if _, rows := s.files(); len(rows) != 10 {
		t.Errorf("%d rows", len(rows))
	}
}

// A store that answers slowly gets a batch once, and one that does not answer in time gets it again in place of the first.
func TestSlowStore(t *testing.T) {
	s := newStore(t)
	sink := s.open("")
	answer := make(chan struct{})
	s.slow.Store(&answer)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 0, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- sink.Send(t.Context(), sinktest.Batch(t, 0, 10)) }()
	close(answer)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, rows := s.files(); len(rows) != 10 {
		t.Errorf("%d rows", len(rows))
	}
}
