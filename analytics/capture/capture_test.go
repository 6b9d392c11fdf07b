package capture_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics/capture"
	"colonnade/fleet"
	"colonnade/internal/testkit"
)

// recorder is a running recorder, whose documents can change.
type recorder struct {
	*capture.Recorder
	t        *testing.T
	captures atomic.Pointer[[]*fleet.Capture]
	log      testkit.SyncBuffer
	stop     func() // waits until it has ended
}

func start(t *testing.T, captures ...*fleet.Capture) *recorder {
	t.Helper()
	r := &recorder{t: t}
	r.set(captures...)
	r.Recorder = capture.New(capture.Config{Node: "edge-1", Captures: func() []*fleet.Capture { return *r.captures.Load() }, Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(r.stop)
	testkit.WaitFor(t, "the captures", func() bool { return len(r.States()) == len(captures) })
	return r
}

func (r *recorder) set(captures ...*fleet.Capture) { r.captures.Store(&captures) }

// request records one request.
func (r *recorder) request(account, id, body string, answer ...string) {
	r.t.Helper()
	record := r.Begin(account)
	if record == nil {
		r.t.Fatalf("no record of a request of %s", account)
	}
	record.Describe(capture.Request{ID: id, Method: "POST", Path: "/v1/chat/completions", Headers: map[string]string{"accept": "*/*"}})
	record.RequestBody([]byte(body))
	record.Answer(200, map[string]string{"content-type": "application/json"})
	for _, piece := range answer {
		record.ResponseBody([]byte(piece))
	}
	record.End()
}

func of(account, sink string) *fleet.Capture {
	return &fleet.Capture{Name: "debug", Account: account, Until: time.Now().Add(time.Hour), Sink: sink, MaxBytes: fleet.KiB}
}

// line is a line of a sink.
type line struct {
	Account         string `json:"account"`
	Node            string `json:"node"`
	RequestID       string `json:"request_id"`
	RequestBody     string `json:"request_body"`
	RequestBase64   string `json:"request_body_base64"`
	RequestBytes    int    `json:"request_bytes"`
	RequestCut      bool   `json:"request_cut"`
	ResponseBody    string `json:"response_body"`
	ResponseBytes   int    `json:"response_bytes"`
	ResponseCut     bool   `json:"response_cut"`
	ResponseHeaders map[string]string
	Unfinished      bool `json:"unfinished"`
}

func read(t *testing.T, path string) (lines []line) {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, data)
}

func parse(t *testing.T, data []byte) (lines []line) {
	t.Helper()
	for text := range bytes.Lines(data) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acme.jsonl")
	r := start(t, of("acme", "file:"+path))
	if r.Begin("other") != nil {
		t.Error("a request of another account is captured")
	}
	r.request("acme", "one", `{"q":"<&>"}`, "first ", "second")
	r.request("acme", "two", "\xff\x00", strings.Repeat("ä", 1000))
	r.stop()
	lines := read(t, path)
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	one, two := lines[0], lines[1]
	if one.RequestID != "one" || one.Account != "acme" || one.Node != "edge-1" || one.RequestBody != `{"q":"<&>"}` || one.ResponseBody != "first second" ||
		one.ResponseBytes != 12 || one.RequestCut || one.ResponseCut || one.Unfinished {
		t.Errorf("the first line is %+v", one)
	}
	if b, _ := base64.StdEncoding.DecodeString(two.RequestBase64); string(b) != "\xff\x00" || two.RequestBody != "" {
		t.Errorf("the second line has the request %+v", two)
	}
	if two.ResponseBytes != 2000 || !two.ResponseCut || two.ResponseBody != strings.Repeat("ä", 512) {
		t.Errorf("of 2000 bytes, %d are kept", len(two.ResponseBody))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info.Mode(), err)
	}
	if log := r.log.String(); !strings.Contains(log, "capturing requests and responses with their content") || !strings.Contains(log, "capture has ended") ||
		strings.Contains(log, "second") {
		t.Errorf("the log is\n%s", log)
	}
}

// A body that is cut inside of a character stays text.
func TestCutInsideOfACharacter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acme.jsonl")
	r := start(t, of("acme", "file:"+path))
	r.request("acme", "one", "a"+strings.Repeat("ä", 600))
	r.stop()
	if l := read(t, path); len(l) != 1 || l[0].RequestBody != "a"+strings.Repeat("ä", 511) || !l[0].RequestCut {
		t.Errorf("%+v", l)
	}
}

// A capture ends at its time, whatever the documents say: nothing of a request that goes on is kept from then on.
func TestEndsAtItsTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acme.jsonl")
	c := of("acme", "file:"+path)
	c.Until = time.Now().Add(time.Second)
	r := start(t, c)
	r.request("acme", "one", "before")
	open := r.Begin("acme")
	open.Describe(capture.Request{ID: "open"})
	open.ResponseBody([]byte("early"))
	testkit.WaitFor(t, "the end", func() bool { return len(r.States()) == 0 })
	if r.Begin("acme") != nil {
		t.Error("a request is captured after the end")
	}
	open.ResponseBody([]byte("late"))
	open.End()
	testkit.WaitFor(t, "the last record", func() bool { return len(read(t, path)) == 2 })
	if l := read(t, path)[1]; l.RequestID != "open" || l.ResponseBody != "early" || !l.Unfinished {
		t.Errorf("the record of the open request is %+v", l)
	}
}

func TestEndsWithItsDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acme.jsonl")
	r := start(t, of("acme", "file:"+path))
	r.request("acme", "one", "x")
	r.set()
	testkit.WaitFor(t, "the end", func() bool { return len(r.States()) == 0 })
	if r.Begin("acme") != nil {
		t.Error("a request is captured without a document")
	}
	testkit.WaitFor(t, "the log of the end", func() bool { return strings.Contains(r.log.String(), "capture has ended") })
	if n := len(read(t, path)); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	var got testkit.SyncBuffer
	var refusals atomic.Int64
	refusals.Store(1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if refusals.Add(-1) >= 0 {
			w.WriteHeader(503)
			return
		}
		_, _ = got.Write(body)
	}))
	defer s.Close()
	r := start(t, of("acme", s.URL+"/in"))
	r.request("acme", "one", "x")
	testkit.WaitFor(t, "the record", func() bool { return strings.Contains(got.String(), `"one"`) })
	r.stop()
	if l := parse(t, []byte(got.String())); len(l) != 1 || !strings.Contains(r.log.String(), "503") {
		t.Errorf("%d lines; the log is\n%s", len(l), r.log.String())
	}
}

// A redirect would bring content to another place than the document says.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	r := start(t, of("acme", s.URL))
	r.request("acme", "one", "x")
	testkit.WaitFor(t, "the failure", func() bool { return strings.Contains(r.log.String(), "307") })
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests at another place", n)
	}
}

// A sink that takes nothing costs records, which are counted, and neither time nor memory of requests.
func TestSinkAway(t *testing.T) {
	t.Parallel()
	r := start(t, of("acme", "file:"+filepath.Join(t.TempDir(), "missing", "acme.jsonl")))
	const requests = 3000
	for range requests {
		r.request("acme", "one", strings.Repeat("x", 4000))
	}
	testkit.WaitFor(t, "the counts", func() bool {
		s := r.States()[0]
		return s.Dropped > requests/3 && s.Problem != "" && s.Written == 0
	})
}

// A sink that hangs delays no request.
func TestSinkHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		<-release
	}))
	defer s.Close()
	defer close(release)
	r := start(t, of("acme", s.URL))
	for range 1000 {
		r.request("acme", "one", "x")
	}
	testkit.WaitFor(t, "records that were dropped", func() bool { return r.States()[0].Dropped > 0 })
}

// The file must be one that only its owner can read, and none that the path leads to by a link.
func TestFileOfOthers(t *testing.T) {
	f := func(want string, make func(path string) error) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "acme.jsonl")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		r := start(t, of("acme", "file:"+path))
		r.request("acme", "one", "x")
		testkit.WaitFor(t, "the problem", func() bool { return strings.Contains(r.States()[0].Problem, want) })
		r.set()
		testkit.WaitFor(t, "the end", func() bool { return len(r.States()) == 0 })
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("the file has %q, and had %q", after, before)
		}
	}
	f("has the mode 0644", func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o644) })
	f("is a symbolic link", func(path string) error {
		target := filepath.Join(filepath.Dir(path), "target")
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
		return os.Symlink(target, path)
	})
	f("is a directory", func(path string) error { return os.Mkdir(path, 0o700) })
}

// A request allocates nothing while no capture is in force, nor one of another account while one is.
func TestOtherRequestsAllocateNothing(t *testing.T) {
	for _, r := range []*recorder{start(t), start(t, of("acme", "file:"+filepath.Join(t.TempDir(), "acme.jsonl")))} {
		if n := testing.AllocsPerRun(100, func() {
			if r.Begin("beta") != nil {
				t.Error("a request of another account is captured")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// Requests cost nothing while no capture is in force.
func BenchmarkNoCapture(b *testing.B) {
	r := capture.New(capture.Config{Node: "edge-1", Captures: func() []*fleet.Capture { return nil }, Logger: slog.New(slog.DiscardHandler)})
	b.ReportAllocs()
	for b.Loop() {
		if r.Begin("acme") != nil {
			b.Fatal("a record without a capture")
		}
	}
}
