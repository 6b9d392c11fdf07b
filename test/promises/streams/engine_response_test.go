package streams_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A refusal by an engine reaches the client as a JSON error with its status, in any form in which the engine sends it.
func TestEngineRefusesRequest(t *testing.T) {
	const shaped = `{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}`
	events := func(data string) string { return ": ping\n\ndata: " + data + "\n\ndata: [DONE]\n\n" }
	var next atomic.Value // of said
	type said struct {
		status            int
		contentType, body string
	}
	e, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		s := next.Load().(said)
		w.Header().Set("Content-Type", s.contentType)
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	})
	f := fleettest.Start(t, onebox.Config{}, documents)
	f.Watch(8)
	for _, c := range []struct {
		name   string
		said   said
		status int
		want   string // in the body
	}{
		{"shaped", said{400, "application/json", shaped}, 400, shaped},
		{"unshaped", said{422, "application/json", `{"detail":[{"msg":"not a list"}]}`}, 422, "not a list"},
		{"html", said{413, "text/html", "<html>too much</html>"}, 413, `"number":41301`},
		{"long", said{400, "application/json", `{"error":{"message":"` + strings.Repeat("x", 100<<10) + `"}}`}, 400, `"number":40001`},
		{"event", said{200, "text/event-stream", events(shaped)}, 400, shaped},
		{"word", said{200, "text/event-stream", events(`{"error":{"message":"too long","code":"context_length_exceeded"}}`)}, 400, "too long"},
		{"long event", said{200, "text/event-stream", events(`{"error":{"code":400,"message":"` + strings.Repeat("x", 50<<10) + `"}}`)}, 400, "xxx"},
		{"key", said{401, "application/json", shaped}, 502, `"reason":"endpoint_misconfigured"`},
		{"model", said{404, "application/json", shaped}, 502, `"reason":"endpoint_misconfigured"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			next.Store(c.said)
			before := e.Requests.Load()
			a := f.Chat(fleettest.StubBody)
			if a.Status != c.status || a.Err != nil || !strings.Contains(a.Body, c.want) || !strings.HasPrefix(a.Body, `{"error":{"`) {
				t.Errorf("answer %d %v %.300q, want %d with %.100q", a.Status, a.Err, a.Body, c.status, c.want)
			}
			if got := a.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			if n := e.Requests.Load() - before; n != 1 {
				t.Errorf("sent to the engine %d times", n)
			}
		})
	}
}

// The refusal of an engine that answers before it has read the body, and closes, reaches the client.
func TestEngineRefusesEarly(t *testing.T) {
	t.Parallel()
	const refusal = `{"error":{"message":"too big","type":"x","code":413}}`
	var posts atomic.Int64
	address := testkit.Serve(t, func(c net.Conn) { // the close is a reset where something was left unread
		answer := wiretest.EncodeResponse("200 OK", "", "Connection: close")
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil && r.Method == http.MethodPost {
			posts.Add(1)
			answer = wiretest.EncodeResponse("413 Too Large", refusal, "Content-Type: application/json", "Connection: close")
		}
		_, _ = io.WriteString(c, answer)
	})
	f := fleettest.Start(t, onebox.Config{}, fleettest.StubEngineDocuments("http://"+address))
	f.WatchShared(8)
	for _, size := range []int{100, 100 << 10, 12 << 20} {
		a := f.Chat(`{"model":"own","messages":["` + strings.Repeat("x", size) + `"]}`)
		if a.Status != 413 || a.Body != refusal {
			t.Errorf("%d bytes: %d %.300q", size, a.Status, a.Body)
		}
	}
	if n := posts.Load(); n != 3 {
		t.Errorf("%d requests arrived, want 3", n)
	}
}

// A plain response too long to be held back is relayed as it comes: whole, and the connection is kept; or cut, if its engine
// cut it.
func TestLongPlainResponses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 1<<16)
	var length, cut atomic.Bool
	e, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if length.Load() {
			w.Header().Set("Content-Length", fmt.Sprint(len(long)))
		}
		if !cut.Load() {
			_, _ = io.WriteString(w, long)
			return
		}
		_, _ = io.WriteString(w, long[:len(long)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	f := fleettest.Start(t, onebox.Config{}, documents)
	f.WatchShared(8)
	w := wiretest.Dial(t, f.Entry.Address)
	for _, known := range []bool{true, false} {
		length.Store(known)
		for range 3 {
			w.Post("/v1/chat/completions", fleettest.StubBody)
			if a := w.Read(); a.Status != 200 || a.Err != nil || a.Body != long {
				t.Fatalf("length known %v: %d %v, %d bytes", known, a.Status, a.Err, len(a.Body))
			}
		}
	}
	before := e.Requests.Load()
	cut.Store(true)
	for _, known := range []bool{true, false} {
		length.Store(known)
		w := wiretest.Dial(t, f.Entry.Address)
		w.Post("/v1/chat/completions", fleettest.StubBody)
		a := w.Read()
		if a.Status != 200 || !errors.Is(a.Err, io.ErrUnexpectedEOF) && !errors.Is(a.Err, io.EOF) || !strings.HasPrefix(long, a.Body) || len(a.Body) < len(long)/2-8<<10 {
			t.Errorf("cut, length known %v: %d %v, %d bytes", known, a.Status, a.Err, len(a.Body))
		}
		if how := w.End(); how != "closed" {
			t.Errorf("the connection ended: %s", how)
		}
	}
	if n := e.Requests.Load() - before; n != 2 {
		t.Errorf("the engine got %d requests for the cut responses, want 2", n)
	}
}

// Internal headers that an engine sends are ignored, and of its other headers only the content type is relayed.
func TestEngineHeadersAreNotRelayed(t *testing.T) {
	_, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"X-Colonnade-Verdict": "error;number=50000;final=1", "X-Colonnade-Load": "free=0;held=9;limit=9;queued=9",
			"X-Colonnade-Attempts": "99", "X-Colonnade-Colo": "nowhere", "X-Request-Id": "engine-0001", "Retry-After": "99",
			"Set-Cookie": "a=b", "X-Engine": "1", "Server": "engine", "Content-Type": "application/json; charset=utf-8",
		} {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, `{"id":"x"}`)
	})
	f := fleettest.Start(t, onebox.Config{}, documents)
	f.Watch(8)
	a := f.Chat(fleettest.StubBody)
	if a.Status != 200 || a.Body != `{"id":"x"}` || a.Header.Get("x-colonnade-colo") != "ams" || a.Header.Get("x-colonnade-attempts") != "1" ||
		a.Header.Get("content-type") != "application/json; charset=utf-8" || len(a.Header.Get("x-request-id")) != 32 {
		t.Errorf("answer %d %v %q", a.Status, a.Header, a.Body)
	}
	const ours = " Content-Type Content-Length Date X-Request-Id X-Colonnade-Colo X-Colonnade-Attempts X-Colonnade-Queued-Ms "
	for name, values := range a.Header {
		if !strings.Contains(ours, " "+name+" ") {
			t.Errorf("the client got the header %s: %v", name, values)
		}
	}
}

// A misconfigured engine refuses at once and so would always be the least loaded. Its requests are retried at another engine,
// and it is ejected, though its health check succeeds.
func TestMisconfiguredEngineIsEjected(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer wrong.Close()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(4)), "key: endpoints/ams/wrong\nurl: "+wrong.URL+"\npool: demo\nconcurrency: 4\n")
	f.WatchShared(8)
	failed := 0 // the retry budget bounds further attempts
	for i := range 40 {
		if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
			failed++
			if i >= 20 || !strings.Contains(a.Body, "endpoint_misconfigured") {
				t.Errorf("number %d: %d %.200s", i, a.Status, a.Body)
			}
		}
	}
	if failed > 8 {
		t.Errorf("%d of 40 failed", failed)
	}
	if n := asked.Load(); n < 5 || n > 12 {
		t.Errorf("the misconfigured endpoint got %d requests, want as many as eject it", n)
	}
	// A bad request ejects no engine.
	if a := f.Chat(strings.Replace(fleettest.ChatBody(1, false), "demo-chat", "nobody-knows", 1)); a.Status != 404 {
		t.Errorf("an unknown model: %d %s", a.Status, a.Body)
	}
}
