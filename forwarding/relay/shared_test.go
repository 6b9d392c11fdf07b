package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// relayStream relays the stream that an engine writes with send to a client, and returns what read returns of the client's connection.
func relayStream(t *testing.T, send func(engine io.Writer), read func(client *bufio.Reader) string) (got string, end relay.Outcome, chunks int) {
	t.Helper()
	engine := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			send(c)
		}
	})
	exchanges, outcomes := forwardtest.NewTransport(t), make(chan relay.Outcome, 1)
	var s *forwardtest.Drainable
	s = forwardtest.Serve(t, func(rc *fasthttp.RequestCtx) {
		r := forwardtest.NewRequest(engine)
		r.IdleTimeout = forwardtest.Patience
		answer, err := exchanges.Do(context.Background(), r, transport.ReadOptions{API: openai.Chat})
		if err != nil {
			t.Error(err)
			return
		}
		in := s.Inflight.Begin()
		relay.WriteRest(rc, &relay.Relay{
			Context: in.Context, Response: answer, Client: rc.Conn(), OnChunk: func() { chunks++ },
			OnOutcome: func(end relay.Outcome) { outcomes <- end }, OnClose: func() { in.Close() },
		})
	})
	c := forwardtest.MustDial(t, s)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	got = read(bufio.NewReader(c))
	end = forwardtest.Receive(t, "the outcome", outcomes)
	s.Stop(server.DrainTimings{})
	return got, end, chunks
}

// readBody returns the body of the response.
func readBody(t *testing.T, client *bufio.Reader) string {
	t.Helper()
	response, err := http.ReadResponse(client, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("after %d bytes: %v", len(body), err)
	}
	return string(body)
}

const streamEnd = "data: [DONE]\n\n"

// A long stream reaches its client whole, however its bytes arrive: an event in two chunks, a chunk in two pieces, several in one.
func TestLongStreamArrivesWhole(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	got, end, chunks := relayStream(t, func(engine io.Writer) {
		for i := range 120 {
			event := forwardtest.Delta(fmt.Sprint("word ", i))
			want.WriteString(event)
			text := forwardtest.Chunk(event)
			switch i % 4 {
			case 1:
				text = forwardtest.Chunk(event[:7]) + forwardtest.Chunk(event[7:])
			case 2: // the next one follows in the same piece
				next := forwardtest.Delta("twin")
				want.WriteString(next)
				text += forwardtest.Chunk(next)
			}
			at := i / 2 % 6 // in the line before a chunk, or in the one behind it
			if i%2 == 0 {
				at = len(text) - at
			}
			for _, piece := range []string{text[:at], text[at:]} {
				_, _ = io.WriteString(engine, piece)
				time.Sleep(300 * time.Microsecond)
			}
		}
		_, _ = io.WriteString(engine, forwardtest.Chunk(streamEnd)+"0\r\n\r\n")
	}, func(client *bufio.Reader) string { return readBody(t, client) })
	if want.WriteString(streamEnd); got != want.String() {
		t.Errorf("got %d bytes, want %d:\n%s", len(got), want.Len(), got)
	}
	if end.Kind != relay.OutcomeCompleted || chunks == 0 {
		t.Errorf("outcome %+v after %d calls of OnChunk", end, chunks)
	}
}

// A client that reads nothing for a while gets everything all the same: what its socket does not take is written when it does.
func TestSlowClientOfALongStream(t *testing.T) {
	t.Parallel()
	event := forwardtest.Delta(strings.Repeat("long ", 2<<10))
	const events = 1000
	sent := make(chan struct{})
	got, end, _ := relayStream(t, func(engine io.Writer) {
		for i := range events {
			_, _ = io.WriteString(engine, forwardtest.Chunk(event))
			if i < 30 { // one by one, until the stream is shared
				time.Sleep(time.Millisecond)
			}
			if i == events/2 {
				close(sent)
			}
		}
		_, _ = io.WriteString(engine, forwardtest.Chunk(streamEnd)+"0\r\n\r\n")
	}, func(client *bufio.Reader) string {
		select {
		case <-sent: // more than the buffers of both sockets hold would not be sent
		case <-time.After(200 * time.Millisecond):
		}
		return readBody(t, client)
	})
	if want := strings.Repeat(event, events) + streamEnd; got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	if end.Kind != relay.OutcomeCompleted {
		t.Errorf("outcome %+v", end)
	}
}
