package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"colonnade/admin"
)

// ask sends a request to the pages, with header fields (name, value, …).
func ask(pages http.Handler, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:9080"
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		} else {
			r.Header.Add(fields[i], fields[i+1])
		}
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	return w
}

// The pages are served under names that cannot be rebound, and under the node's own.
func TestNamesOfTheNode(t *testing.T) {
	pages := admin.Handler(admin.Config{Hosts: []string{"edge-1", "Entry.internal:9080", "10.0.0.7:9080"}})
	f := func(host string, status int) {
		t.Helper()
		for _, path := range []string{"/", "/health/ready", "/debug/pprof/cmdline"} {
			if w := ask(pages, "GET", path, "Host", host); w.Code != status || status == 421 && !strings.Contains(w.Body.String(), "-admin-hosts") {
				t.Errorf("%s of %s: got %d %q, want %d", path, host, w.Code, w.Body, status)
			}
		}
	}
	f("127.0.0.1:9080", 200)
	f("[::1]:9080", 200)
	f("192.0.2.7", 200)
	f("localhost:9080", 200)
	f("edge-1:9080", 200)
	f("EDGE-1", 200)
	f("entry.internal.:9080", 200)
	f("", 200) // HTTP/1.0, as some health checkers send it
	f("evil.example:9080", 421)
	f("edge-1.evil.example", 421)
	f("127.0.0.1.evil.example", 421)
	f("localhost.evil.example:9080", 421)
}

// A request that a browser sends for a page of another origin is refused before any work.
func TestPagesOfOtherOrigins(t *testing.T) {
	worked := false
	pages := admin.Handler(admin.Config{Ready: func() error { worked = true; return nil }})
	f := func(status int, fields ...string) {
		t.Helper()
		worked = false
		if w := ask(pages, "GET", "/health/ready", fields...); w.Code != status || worked != (status == 200) {
			t.Errorf("%v: got %d %q, want %d", fields, w.Code, w.Body, status)
		}
	}
	f(200)
	f(200, "Sec-Fetch-Site", "none")
	f(200, "Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:9080")
	f(200, "Origin", "http://127.0.0.1:9080")
	f(403, "Sec-Fetch-Site", "cross-site")
	f(403, "Sec-Fetch-Site", "same-site")
	f(403, "Origin", "http://127.0.0.1:3000")
	f(403, "Origin", "null")
	f(403, "Origin", "http://127.0.0.1:9080", "Origin", "https://evil.example")
	f(403, "Origin", "http://127.0.0.1:9080.evil.example")
	if w := ask(pages, "POST", "/health/ready", "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("a POST: %d", w.Code)
	}
}
