package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ready":
			fmt.Fprintln(w, "ready")
		case "/odd":
			fmt.Fprintln(w, "ready \x1b[31m")
		case "/bad":
			http.Error(w, "draining \x1b[31m", http.StatusServiceUnavailable)
		case "/silent":
			<-r.Context().Done()
		default:
			http.Error(w, "draining", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	t.Setenv("http_proxy", "http://127.0.0.1:1") // has no say

	run(t, "", "health", server.URL+"/ready").want(t, "ready\n")
	run(t, "", "health", server.URL+"/ready", server.URL+"/").fail(t, "ready\n", "503", "draining")
	run(t, "", "health", "-timeout", "50ms", server.URL+"/silent").fail(t, "not healthy", "deadline")
	run(t, "", "health", "http://127.0.0.1:1/ready").fail(t, "not healthy", "refused")
	for _, r := range []ran{run(t, "", "health", server.URL+"/odd"), run(t, "", "health", server.URL+"/bad")} {
		if text := r.out + fmt.Sprint(r.err); strings.Contains(text, "\x1b") || !strings.Contains(text, `\x1b[31m`) {
			t.Errorf("a page reaches the terminal as it is: %q", text)
		}
	}
	run(t, "", "health").fail(t, "URL")
}
