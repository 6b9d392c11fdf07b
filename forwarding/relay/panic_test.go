package relay_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/internal/forwardtest"
)

// A panic in mid-stream ends that stream with the API's error event and without the last chunk, and closes the exchange. OnOutcome and
// OnClose are called as for any other outcome.
func TestPanicInARelay(t *testing.T) {
	closed := make(chan error, 1)
	goOn := make(chan struct{})
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := forwardtest.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("a")))
			<-goOn
			_, _ = io.WriteString(c, forwardtest.Chunk(forwardtest.Delta("b")))
			_, err := br.ReadByte()
			closed <- err
		}
	})
	transport := forwardtest.NewTransport(t)
	tripwire := func() { panic("a bug of ours") }
	lines, outcomes, closes := make(forwardtest.LogLines, 10), make(chan relay.Outcome, 4), make(chan struct{}, 4)
	s := forwardtest.ServeConfig(t, server.Config{
		Logger: slog.New(slog.NewTextHandler(lines, nil)),
		Handle: func(rc *fasthttp.RequestCtx) {
			answer, err := transport.Do(context.Background(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
			if err != nil {
				t.Error(err)
				return
			}
			relay.WriteRest(rc, &relay.Relay{
				Context: context.Background(), Response: answer, Client: rc.Conn(), RequestID: "r",
				OnChunk: tripwire, OnOutcome: func(e relay.Outcome) { outcomes <- e }, OnClose: func() { closes <- struct{}{} },
			})
		},
	})
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n\r\n")
	answer, err := http.ReadResponse(c.Br, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	body, err := io.ReadAll(answer.Body)
	if err == nil || !strings.HasPrefix(string(body), forwardtest.Delta("a")) || !strings.Contains(string(body), `"number":50000`) {
		t.Errorf("the client got %q, %v", body, err)
	}
	if e := forwardtest.Receive(t, "the outcome", outcomes); e.Kind != relay.OutcomeCrashed || e.Err == nil {
		t.Errorf("it ended by %+v", e)
	}
	forwardtest.Receive(t, "the close", closes)
	if err := forwardtest.Receive(t, "the engine to see the end", closed); err == nil || errors.Is(err, os.ErrDeadlineExceeded) { // a reset is fine, since the response was not read to its end
		t.Errorf("the engine's connection ended with %v", err)
	}
	if line := forwardtest.Receive(t, "the log", lines); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "a string") || !strings.Contains(line, "TestPanicInARelay") {
		t.Errorf("logged %q", line)
	}
	s.Stop(server.DrainTimings{})
	if len(outcomes)+len(closes) > 0 {
		t.Error("OnOutcome or OnClose was called twice")
	}
}
