package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/admin"
)

// deadlines counts the read deadlines of a connection.
type deadlines struct {
	http.ResponseWriter
	set int
}

func (d *deadlines) SetReadDeadline(time.Time) error {
	d.set++
	return nil
}

// A request with a body has a read deadline, so that no client holds a connection by a slow one. Others have none: it would end long profiles.
func TestBodiesHaveADeadline(t *testing.T) {
	t.Parallel()
	pages := admin.Handler(admin.Config{})
	f := func(body string, want int) {
		t.Helper()
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		pages.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "http://127.0.0.1/health/live", strings.NewReader(body)))
		if d.set != want {
			t.Errorf("body %q: %d deadlines, want %d", body, d.set, want)
		}
	}
	f("", 0)
	f("x", 1)
}

// Paths of the API that are not clean reach it, and are not redirected.
func TestUncleanPathsReachTheAPI(t *testing.T) {
	t.Parallel()
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	recorder := httptest.NewRecorder()
	admin.Handler(admin.Config{API: api}).ServeHTTP(recorder, httptest.NewRequest(http.MethodPut, "http://127.0.0.1/api/v1/models/a//b", http.NoBody))
	if recorder.Code != http.StatusTeapot {
		t.Errorf("got %d", recorder.Code)
	}
}
