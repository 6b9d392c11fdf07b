package entry

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics/journal"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/wiretest"
)

const (
	pageKey   = "cn_page_0123456789abcdefghij"
	pageModel = "key: models/m\n---\nkey: keys/page\naccount: acme\nsha256: \"21c3a77704eda9271e00604e87a3af9cae039c61a151c6053d11ff509f79a133\"\n"
	byName    = "---\nkey: defaults\norigins: ['https://app.example', 'HTTP://Chat.example:80', 'app://obsidian.md']\n"
	byAny     = "---\nkey: defaults\norigins: ['https://app.example', '*']\n"
)

// pageEntry is an entry in front of a colo that counts the requests.
type pageEntry struct {
	t       *testing.T
	address string
	entry   *Entry
	events  string
	served  atomic.Int64
}

func startPageEntry(t *testing.T, open bool, documents string) *pageEntry {
	t.Helper()
	e := &pageEntry{t: t, events: t.TempDir()}
	table := tableOf(t, documents+colo(t, "ams", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") { // else it is a ping
			e.served.Add(1)
		}
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, `{"served":true}`)
	}))
	var url string
	url, e.entry = runEntry(t, Config{Table: func() *fleet.Table { return table }, Open: open}, e.events)
	e.address = strings.TrimPrefix(url, "http://")
	return e
}

// send sends one request, without its body if its head announces one that is never sent.
func (e *pageEntry) send(first, lines, body string) wiretest.Response {
	e.t.Helper()
	w := wiretest.Dial(e.t, e.address)
	defer w.Close()
	all := strings.Split(strings.ReplaceAll(lines, "KEY", "Authorization: Bearer "+pageKey), "; ")
	if !strings.Contains(lines, "Host: ") {
		all = append(all, "Host: "+e.address)
	}
	if body != "" {
		all = append(all, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	w.Send(first+" HTTP/1.1", all, body)
	return w.Read()
}

// reads returns the headers that let a page read a response.
func reads(r wiretest.Response) string {
	if r.Header.Get("Access-Control-Allow-Credentials") != "" {
		return "with credentials"
	}
	origin := r.Header.Get("Access-Control-Allow-Origin")
	if full := r.Header.Get("Access-Control-Expose-Headers") == "*" && r.Header.Get("Vary") == "Origin"; full != (origin != "") {
		return "in part: " + fmt.Sprint(r.Header)
	}
	return origin
}

// Without a valid key the origin of a page decides whether its request is served, and with one only whether the page may read the
// answer. A page of the entry's own origin is served if its name cannot be rebound. Clients that are no browsers are not affected.
func TestRequestsOfPages(t *testing.T) {
	t.Parallel()
	const post, chat = "POST /v1/chat/completions", `{"model":"m","messages":[]}`
	named, any, closed := startPageEntry(t, true, pageModel+byName), startPageEntry(t, true, pageModel+byAny), startPageEntry(t, false, pageModel+byAny)
	none, private := startPageEntry(t, true, pageModel), startPageEntry(t, false, pageModel+byName)
	f := func(e *pageEntry, lines string, status int, allowed string) {
		t.Helper()
		before := e.served.Load()
		r := e.send(post, strings.ReplaceAll(lines, "SELF", e.address), chat)
		if r.Status != status || reads(r) != allowed {
			t.Errorf("%s: %d, read by %q, want %d, %q: %s", lines, r.Status, reads(r), status, allowed, r.Body)
		}
		if n := e.served.Load() - before; (n > 0) != (status == 200) {
			t.Errorf("%s: %d requests were forwarded", lines, n)
		}
		if status == 403 && r.APIError(t).Code != "origin_not_allowed" {
			t.Errorf("%s: %s", lines, r.Body)
		}
	}
	// No page.
	for _, e := range []*pageEntry{named, any, none} {
		f(e, "Accept: */*", 200, "")
		f(e, "Host: entry.default.svc:8080", 200, "")
		f(e, "Sec-Fetch-Site: none", 200, "")
	}
	// A page of another origin, by name.
	f(named, "Origin: https://app.example", 200, "https://app.example")
	f(named, "Origin: http://chat.example", 200, "http://chat.example")
	f(named, "Origin: app://obsidian.md", 200, "app://obsidian.md")
	for _, foreign := range []string{"https://evil.example", "http://app.example", "https://app.example:8443", "https://app.example.evil.example",
		"null", "https://app.example https://evil.example", "https://app.example/", "*", "garbage", "http://localhost:3000"} {
		f(named, "Origin: "+foreign, 403, "")
		f(none, "Origin: "+foreign, 403, "")
		f(named, "KEY; Origin: "+foreign, 200, "")
		f(private, "Origin: "+foreign, 403, "")
		f(private, "KEY; Origin: "+foreign, 200, "")
		f(named, "X-Api-Key: "+pageKey+"; Origin: "+foreign, 200, "")
		f(named, "Api-Key: "+pageKey+"; Origin: "+foreign, 200, "")
		f(private, "X-Api-Key: wrong; Origin: "+foreign, 401, "")
		f(named, "Authorization: Bearer wrong; Origin: "+foreign, 403, "")
		f(private, "Authorization: Bearer wrong; Origin: "+foreign, 401, "")
	}
	f(named, "Sec-Fetch-Site: cross-site", 403, "")
	f(named, "Sec-Fetch-Site: same-site", 403, "")
	f(private, "Origin: https://app.example", 401, "https://app.example")
	f(private, "KEY; Origin: https://app.example", 200, "https://app.example")
	// Any origin, with a key.
	for _, e := range []*pageEntry{any, closed} {
		f(e, "KEY; Origin: https://evil.example", 200, "*")
		f(e, "KEY; Origin: null", 200, "*")
		f(e, "KEY; Origin: https://app.example", 200, "https://app.example")
	}
	f(any, "Origin: https://evil.example", 403, "*")
	f(closed, "Origin: https://evil.example", 401, "*")
	// A page of the entry's own origin.
	f(none, "Origin: http://SELF", 200, "")
	f(none, "Origin: http://localhost:8080; Host: localhost:8080", 200, "")
	f(none, "Origin: http://[::1]:8080; Host: [::1]:8080", 200, "")
	f(none, "Origin: http://10.0.0.7; Host: 10.0.0.7", 200, "")
	f(none, "Origin: http://evil.example:8080; Host: evil.example:8080", 403, "")
	f(none, "Origin: http://evil.example:8080; Host: evil.example:8080; KEY", 200, "")
	f(none, "Origin: http://localhost.evil.example; Host: localhost.evil.example", 403, "")
	f(none, "Origin: https://api.example; Host: upstream; Sec-Fetch-Site: same-origin", 200, "")
	f(named, "Origin: http://chat.example; Host: chat.example", 200, "http://chat.example")
}

// A request that is refused for its page is refused by its head: without 100 Continue, and before its body has arrived.
func TestForeignPageIsRefusedByTheHead(t *testing.T) {
	t.Parallel()
	e := startPageEntry(t, true, pageModel+byName)
	for _, lines := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked", "Expect: 100-continue; Content-Length: 10"} {
		r := e.send("POST /v1/chat/completions", "Origin: https://evil.example; "+lines, "")
		if r.Status != 403 || r.APIError(t).Number != 40303 {
			t.Errorf("%s: %d %s", lines, r.Status, r.Body)
		}
	}
}

// The names of the models are for the same pages. A request without an Origin header is none of another origin.
func TestModelsForPages(t *testing.T) {
	t.Parallel()
	e := startPageEntry(t, true, pageModel+byName)
	f := func(lines string, status int, allowed string) {
		t.Helper()
		for _, path := range []string{"/v1/models", "/v1/models/m"} {
			if r := e.send("GET "+path, lines, ""); r.Status != status || reads(r) != allowed {
				t.Errorf("%s of %s: %d, read by %q", path, lines, r.Status, reads(r))
			}
		}
	}
	f("Origin: https://app.example", 200, "https://app.example")
	f("Origin: https://evil.example", 403, "")
	f("Origin: https://evil.example; KEY", 200, "")
	f("Sec-Fetch-Site: cross-site", 200, "") // no page can read it
	f("Accept: */*", 200, "")
}

// Every answer to a page of a listed origin can be read: also errors of the head, of the route and of the model, and refusals.
func TestPagesReadErrors(t *testing.T) {
	t.Parallel()
	e := startPageEntry(t, true, pageModel+byName+"---\nkey: accounts/open\nlimits: {concurrent: 0}\n")
	const lines, chat = "Origin: https://app.example", `{"model":"m","messages":[]}`
	f := func(first, more, body string, status int) {
		t.Helper()
		if r := e.send(first, lines+more, body); r.Status != status || reads(r) != "https://app.example" {
			t.Errorf("%s: %d, read by %q, want %d: %s", first, r.Status, reads(r), status, r.Body)
		}
	}
	f("POST /v1/chat/completions", "", chat, 429)
	e = startPageEntry(t, true, pageModel+byName)
	f("POST /v1/chat/completions", "", "{", 400)
	f("POST /v1/chat/completions", "", `{"model":"x","messages":[]}`, 404)
	f("POST /v1/chat/completions", "; Trailer: x", chat, 400)
	f("POST /chat/completions", "", chat, 404)
	f("PUT /v1/chat/completions", "", chat, 405)
	f("OPTIONS /v1/chat/completions", "", "", 405) // no preflight
	e.entry.Drain()
	e.entry.refusing.Store(true)
	f("POST /v1/chat/completions", "", chat, 503)
}

// A preflight of a listed origin is answered without a key, and leaves no event. Others are refused, without a header of CORS.
func TestPreflight(t *testing.T) {
	t.Parallel()
	named, any := startPageEntry(t, false, pageModel+byName), startPageEntry(t, false, pageModel+byAny)
	const asks = "; Access-Control-Request-Method: POST; Access-Control-Request-Headers: authorization,api-key,x-api-key,content-type,x-stainless-os"
	f := func(e *pageEntry, lines string, status int, allowed string) wiretest.Response {
		t.Helper()
		r := e.send("OPTIONS /v1/chat/completions", lines+asks, "")
		if r.Status != status || reads(r) != allowed {
			t.Errorf("%s: %d, read by %q, want %d, %q", lines, r.Status, reads(r), status, allowed)
		}
		if methods := r.Header.Get("Access-Control-Allow-Methods"); (methods == "GET, POST") != (status == 204) {
			t.Errorf("%s: methods %q", lines, methods)
		}
		if fields := r.Header.Get("Access-Control-Allow-Headers"); (fields == "Authorization, Api-Key, X-Api-Key, *") != (status == 204) {
			t.Errorf("%s: headers %q", lines, fields)
		}
		return r
	}
	r := f(named, "Origin: https://app.example", 204, "https://app.example")
	if r.Header.Get("Access-Control-Max-Age") != "7200" || r.Header.Get("Access-Control-Allow-Private-Network") != "" {
		t.Errorf("preflight: %v", r.Header)
	}
	const private = "; Access-Control-Request-Private-Network: true"
	if r := f(named, "Origin: https://app.example"+private, 204, "https://app.example"); r.Header.Get("Access-Control-Allow-Private-Network") != "true" {
		t.Errorf("preflight to a private network: %v", r.Header)
	}
	for _, foreign := range []string{"https://evil.example", "null", "http://" + named.address} {
		r := f(named, "Origin: "+foreign+private, 403, "")
		if r.APIError(t).Number != 40303 || r.Header.Get("Access-Control-Allow-Private-Network") != "" {
			t.Errorf("preflight of %s: %v %s", foreign, r.Header, r.Body)
		}
	}
	f(any, "Origin: https://evil.example", 204, "*")
	f(any, "Origin: null", 204, "*")
	named.entry.Drain()
	named.entry.refusing.Store(true)
	f(named, "Origin: https://app.example", 204, "https://app.example") // so that the page can read the refusal of its request
	f(named, "Origin: https://evil.example; Origin: https://app.example", 400, "")
	f(named, "Origin: https://app.example; X_Colonnade_Queue: never", 400, "")
	if n := named.entry.inflight.Count(); n != 0 {
		t.Errorf("%d requests in flight", n)
	}
	for ev, err := range journal.ReadDir(named.events) {
		t.Errorf("a preflight left an event: %+v, %v", ev, err)
	}
}

// Browsers let every page open a WebSocket and read from it, so a page of an origin that is not listed opens none, also with a key.
func TestSessionsOfPages(t *testing.T) {
	t.Parallel()
	const model = "---\nkey: models/r\ntype: realtime\n"
	named, any := startPageEntry(t, true, pageModel+byName+model), startPageEntry(t, true, pageModel+byAny+model)
	f := func(e *pageEntry, lines string, opens bool) {
		t.Helper()
		before := e.served.Load()
		r := e.send("GET /v1/realtime?model=r", lines+"; Upgrade: websocket; Connection: Upgrade; Sec-WebSocket-Version: 13; Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "")
		if opened := e.served.Load() > before; opened != opens || (r.Status == 403) == opens {
			t.Errorf("%s: %d, forwarded: %v", lines, r.Status, opened)
		}
	}
	f(named, "Accept: */*", true)
	f(named, "Origin: https://app.example", true)
	f(named, "Origin: https://evil.example", false)
	f(named, "Origin: https://evil.example; KEY", false)
	f(named, "Origin: null; KEY", false)
	f(named, "Origin: http://127.0.0.1:8080; Host: 127.0.0.1:8080", true)
	f(named, "Origin: http://edge-1:8080; Host: edge-1:8080", false) // the name may have been rebound
	f(named, "Origin: http://edge-1:8080; Host: edge-1:8080; KEY", true)
	f(any, "Origin: https://evil.example", false)
	f(any, "Origin: https://evil.example; KEY", true)
	f(any, "Origin: https://evil.example; Sec-WebSocket-Protocol: realtime, openai-insecure-api-key."+pageKey, true)
}
