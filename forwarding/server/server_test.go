package server_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// A client that is still sending gets the last response of its connection, and no reset.
func TestLastResponsesGetThrough(t *testing.T) {
	f := func(name, head string, handle func(*fasthttp.RequestCtx)) {
		t.Run(name, func(t *testing.T) {
			s := forwardtest.Serve(t, handle)
			c := forwardtest.MustDial(t, s)
			fmt.Fprint(c, head+"\r\nHost: x\r\n\r\n")
			for range 20 {
				if _, err := io.WriteString(c, strings.Repeat("x", 100<<10)); err != nil {
					t.Fatalf("was reset while it sent: %v", err)
				}
				time.Sleep(2 * time.Millisecond)
			}
			if last, err := c.ReadOK(); !last || err != nil {
				t.Errorf("last %v, %v", last, err)
			}
			c.AssertEOF(t)
			s.Stop(server.DrainTimings{})
		})
	}
	f("the handler ends it", "POST / HTTP/1.1\r\nContent_Length: 4000000", func(rc *fasthttp.RequestCtx) { rc.SetConnectionClose() })
	f("by a header", "GET / HTTP/1.1", func(rc *fasthttp.RequestCtx) { rc.Response.Header.Set("Connection", "close") })
	f("another protocol", "GET / HTTP/1.1\r\nUpgrade: h2c", nil)
	f("a body in chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked", nil)
	f("a long body", "POST / HTTP/1.1\r\nContent-Length: 4000000", nil)
}

// A panic in RejectEarly or in HandleError fails that request and not the process.
func TestPanicOutsideTheHandler(t *testing.T) {
	lines := make(forwardtest.LogLines, 10)
	s := forwardtest.ServeConfig(t, server.Config{
		Logger:      slog.New(slog.NewTextHandler(lines, nil)),
		RejectEarly: func(*fasthttp.RequestHeader) bool { panic("a bug of ours") },
		HandleError: func(*fasthttp.RequestCtx, *openai.Error) { panic(errors.New("another")) },
	})
	wantLog := func(what, with string) {
		t.Helper()
		if line := forwardtest.Receive(t, "the log", lines); !strings.Contains(line, what) || !strings.Contains(line, with) || !strings.Contains(line, "TestPanicOutsideTheHandler.func") {
			t.Errorf("logged %q, want %q and %q and a stack", line, what, with)
		}
	}
	c := forwardtest.MustDial(t, s)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*server.MaxPrefetch, strings.Repeat("x", 2*server.MaxPrefetch))
	if _, err := c.ReadOK(); err != nil {
		t.Errorf("a request after a panic in RejectEarly: %v", err)
	}
	wantLog(`in="early rejection"`, "a string")
	c = forwardtest.MustDial(t, s)
	fmt.Fprint(c, "no HTTP\r\n\r\n")
	answer, err := http.ReadResponse(c.Br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "internal_error") || !answer.Close {
		t.Errorf("answered %d %s", answer.StatusCode, body)
	}
	c.AssertEOF(t)
	wantLog(`in="error handler"`, "a *errors.errorString")
	s.Stop(server.DrainTimings{})
}
