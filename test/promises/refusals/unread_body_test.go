package refusals_test

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// unreadBodies are requests that are refused before their body is read, if it is at all. trust has all heads that are refused.
var unreadBodies = []struct {
	name, first string
	lines       string // separated by |; {key} is a valid one
	status      int
}{
	{"no key, chunked", "POST /v1/chat/completions", "Transfer-Encoding: chunked", 401},
	{"no key, form", "POST /v1/audio/transcriptions", "Content-Type: multipart/form-data; boundary=XX|Content-Length: 1000000", 401},
	{"no key, expecting", "POST /v1/chat/completions", "Expect: 100-continue|Content-Length: 1000000", 401},
	{"too large", "POST /v1/chat/completions", "{key}|Content-Length: 16777217", 413},
	{"too large, HTTP/1.0", "POST /v1/chat/completions HTTP/1.0", "{key}|Content-Length: 16777217", 413},
	{"compressed, chunked", "POST /v1/chat/completions", "{key}|Content-Encoding: gzip|Transfer-Encoding: chunked", 400},
	{"unknown path", "POST /v1/nothing", "{key}|Content-Length: 1000000", 404},
	{"wrong method, chunked", "PUT /v1/chat/completions", "{key}|Transfer-Encoding: chunked", 405},
	{"body of a GET", "GET /v1/models", "{key}|Content-Length: 1000000", 400},
	{"chunks of a probe", "GET /health", "Transfer-Encoding: chunked", 400},
	{"body of a probe", "POST /health", "Content-Length: 1000000", 405},
	{"two framings", "POST /v1/chat/completions", "{key}|Content-Length: 5|Transfer-Encoding: chunked", 400},
	{"upgrade", "POST /v1/chat/completions", "{key}|Connection: Upgrade|Upgrade: websocket|Content-Length: 1000000", 400},
}

// However a request is refused, and however much of its body has come, no part of the body is taken for a request, and the
// connection is closed.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	document, key := fleettest.AccountWithKey("one", "")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, strings.TrimPrefix(document, "---\n"))
	f.Key = strings.TrimPrefix(key, "Bearer ")
	f.Watch(16)
	hidden := func(n int) string {
		return strings.Repeat("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Request-Id: smuggled\r\nAuthorization: "+key+"\r\n\r\n", n)
	}
	w := wiretest.Dial(t, f.Entry.Address)
	w.Send(strings.TrimSuffix(hidden(1), "\r\n\r\n"), nil, "")
	if a := w.Read(); a.Status != 200 {
		t.Fatalf("the hidden request would not be served: %d", a.Status)
	}
	before := f.EngineRequests()
	for _, c := range unreadBodies {
		for _, body := range []string{"", hidden(1), hidden(400)} {
			for _, peer := range []bool{false, true} {
				address, found := f.PeerListener()
				if peer && !found {
					continue
				}
				if !peer {
					address = f.Entry.Address
				}
				w := wiretest.Dial(t, address)
				first := c.first
				if !strings.Contains(first, "HTTP/") {
					first += " HTTP/1.1"
				}
				lines := strings.Split(strings.ReplaceAll(c.lines, "{key}", "Authorization: "+key), "|")
				if body == "" && strings.Contains(c.lines, "Content-Length: 5") {
					continue // the server waits for so short a body
				}
				w.Send(first, append([]string{"Host: x"}, lines...), body)
				a := w.Read()
				if a.Status == 100 {
					a = w.Read()
				}
				if peer && a.Status/100 != 4 || !peer && a.Status != c.status || a.Header.Get("Connection") != "close" {
					t.Errorf("%s, peer %v: %d %v, want %d", c.name, peer, a.Status, a.Header, c.status)
				}
				if how := w.End(); how != "closed" {
					t.Errorf("%s, peer %v, %d bytes of body: the connection ended: %s", c.name, peer, len(body), how)
				}
				w.Close()
			}
		}
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("%d requests reached an engine", n)
	}
}

// A client that sends its whole body before it reads gets the refusal, which was sent long before.
func TestRefusalReachesSendingClient(t *testing.T) {
	t.Parallel()
	document, key := fleettest.AccountWithKey("one", "")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, strings.TrimPrefix(document, "---\n"))
	f.Key = strings.TrimPrefix(key, "Bearer ")
	f.WatchShared(8)
	for _, c := range []struct {
		name   string
		lines  []string
		length int
		status int
	}{
		{"no key", nil, 8 << 20, 401},
		{"too large", []string{"Authorization: " + key}, 24 << 20, 413},
		{"compressed", []string{"Authorization: " + key, "Content-Encoding: br"}, 8 << 20, 400},
	} {
		for range 10 {
			w := wiretest.Dial(t, f.Entry.Address)
			began := time.Now()
			w.Send("POST /v1/chat/completions HTTP/1.1", append(c.lines, "Host: x", "Content-Length: "+strconv.Itoa(c.length)), "")
			left, err := sendOn(w, c.length)
			if err != nil && time.Since(began) >= time.Second {
				w.Close() // the machine was too slow for the time that a server waits: once more
				continue
			}
			if a := w.Read(); err != nil || a.Status != c.status || a.Err != nil {
				t.Errorf("%s: cut with %d bytes to send: %v; answer %d %v", c.name, left, err, a.Status, a.Err)
			}
			w.Close()
			break
		}
	}
}

// sendOn sends the body of a refused request, and returns how many bytes were left when that failed.
func sendOn(w *wiretest.Conn, left int) (int, error) {
	for ; left > 0; left -= 1 << 20 {
		if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
			return left, err
		}
		time.Sleep(time.Millisecond)
	}
	return 0, nil
}

// A refused request with a short body keeps its connection, and the next request on it is served.
func TestRefusedShortBodyKeepsConnection(t *testing.T) {
	document, key := fleettest.AccountWithKey("one", "")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, strings.TrimPrefix(document, "---\n"))
	f.Key = strings.TrimPrefix(key, "Bearer ")
	f.Watch(8)
	w := wiretest.Dial(t, f.Entry.Address)
	for range 3 {
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false))
		w.Post("/v1/nothing", fleettest.ChatBody(1, false), "Authorization: "+key)
		w.Post("/v1/chat/completions", fleettest.ChatBody(1, false), "Authorization: "+key)
		w.Send("POST /v1/chat/completions HTTP/1.1", []string{"Host: x", "Authorization: " + key, "Transfer-Encoding: chunked"}, wiretest.Chunked(fleettest.ChatBody(1, true), 7))
		for _, status := range []int{401, 404, 200, 200} {
			if a := w.Read(); a.Status != status || a.Err != nil {
				t.Fatalf("%d %v %.200q, want %d", a.Status, a.Err, a.Body, status)
			}
		}
	}
}

// A truncated body is refused, also where the part that came would be valid.
func TestTruncatedBody(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, "")
	f.Watch(8)
	before := f.EngineRequests()
	for _, body := range []string{fleettest.ChatBody(1, false), strings.Replace(fleettest.ChatBody(1, false), "hello", strings.Repeat("a", 20<<10), 1)} {
		chunked := wiretest.Chunked(body, 4<<10)
		for _, c := range []struct{ name, framing, sent string }{
			{"short by a byte", "Content-Length: " + strconv.Itoa(len(body)+1), body},
			{"without the last chunk", "Transfer-Encoding: chunked", strings.TrimSuffix(chunked, "0\r\n\r\n")},
			{"in the last chunk's size", "Transfer-Encoding: chunked", strings.TrimSuffix(chunked, "\r\n\r\n")},
			{"in a chunk", "Transfer-Encoding: chunked", strings.TrimSuffix(chunked, "\r\n0\r\n\r\n")},
			{"in a chunk's size", "Transfer-Encoding: chunked", strings.TrimSuffix(chunked, "0\r\n\r\n") + "1"},
		} {
			w := wiretest.Dial(t, f.Entry.Address)
			w.Send("POST /v1/chat/completions HTTP/1.1", []string{"Host: x", c.framing}, c.sent)
			_ = w.CloseWrite()
			if a := w.Read(); a.Status != 400 || a.Err != nil {
				t.Errorf("%s: %d %v %.200q", c.name, a.Status, a.Err, a.Body)
			}
			if how := w.End(); how != "closed" {
				t.Errorf("%s: the connection ended: %s", c.name, how)
			}
		}
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("%d requests reached an engine", n)
	}
}

// An account that may use nothing is refused by the head: its client gets neither 100 Continue nor waits for its body to be read.
func TestUselessAccountIsRefusedByHead(t *testing.T) {
	t.Parallel()
	noModels, noModelsKey := fleettest.AccountWithKey("no-models", "models: []")
	noRequests, noRequestsKey := fleettest.AccountWithKey("no-requests", "limits: {concurrent: 0}")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, strings.TrimPrefix(noModels, "---\n")+noRequests)
	f.WatchShared(8)
	for key, status := range map[string]int{noModelsKey: 403, noRequestsKey: 429} {
		for _, lines := range []string{
			"Expect: 100-continue|Content-Length: 100", "Expect: 100-continue|Content-Length: 1000000", "Expect: 100-continue|Transfer-Encoding: chunked",
			"Content-Length: 1000000", "Transfer-Encoding: chunked",
		} {
			w := wiretest.Dial(t, f.Entry.Address)
			w.Send("POST /v1/chat/completions HTTP/1.1", append(strings.Split(lines, "|"), "Host: x", "Authorization: "+key), "")
			a := w.Read()
			if a.Status != status || a.Err != nil || a.Header.Get("Connection") != "close" {
				t.Errorf("%s: %d %v %v, want %d", lines, a.Status, a.Err, a.Header, status)
			}
			w.Close()
		}
	}
}
