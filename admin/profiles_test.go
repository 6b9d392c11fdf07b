package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"colonnade/admin"
	"colonnade/internal/testkit"
)

// A profile takes a minute at most.
func TestSecondsOfProfiles(t *testing.T) {
	pages := admin.Handler(admin.Config{})
	for _, path := range []string{"profile", "trace", "heap", "goroutine", "mutex"} {
		for _, seconds := range []string{"61", "3600", "0", "-1", "1e1", "0.5", "x", "+5", "99999999999999999999"} {
			w := ask(pages, "GET", "/debug/pprof/"+path+"?seconds="+strings.ReplaceAll(seconds, "+", "%2b"))
			if w.Code != 400 || !strings.Contains(w.Body.String(), "must be a whole number from 1 to 60") {
				t.Errorf("%s for %s s: got %d %.100q", path, seconds, w.Code, w.Body)
			}
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if w := profileFor(gone, pages, "profile?seconds=60"); w.Code != 200 {
		t.Errorf("a profile of a minute: got %d %.100q", w.Code, w.Body)
	}
}

// profileFor requests a profile for a client that leaves when ctx ends.
func profileFor(ctx context.Context, pages http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://localhost/debug/pprof/"+path, nil))
	return w
}

// While a profile is taken, another one is refused. The end of its client ends it.
func TestOneProfileAtATime(t *testing.T) {
	pages := admin.Handler(admin.Config{})
	client, leave := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- profileFor(client, pages, "profile").Code }()
	testkit.WaitFor(t, "the profile to begin", func() bool {
		return strings.Contains(ask(pages, "GET", "/debug/pprof/goroutine?debug=1").Body.String(), "net/http/pprof.Profile")
	})
	for _, path := range []string{"profile?seconds=1", "profile", "trace", "heap?seconds=1"} {
		if w := ask(pages, "GET", "/debug/pprof/"+path); w.Code != 409 || !strings.Contains(w.Body.String(), "try again when it has ended") {
			t.Errorf("%s beside a profile: got %d %.100q", path, w.Code, w.Body)
		}
	}
	leave()
	if status := <-ended; status != 200 {
		t.Errorf("the profile: %d", status)
	}
	if w := profileFor(client, pages, "trace"); w.Code != 200 {
		t.Errorf("a trace after it: %d", w.Code)
	}
}
