package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
	"colonnade/reasons"
)

// relayed is the result of a relay.
type relayed struct {
	out   string
	err   error
	end   relay.Outcome
	known int
	ended int
}

// relayFrom relays the response of a server that sends text and then waits, or closes. after is called with all that the client has
// received, whenever that grows.
func relayFrom(t *testing.T, tr *transport.Transport, api openai.API, text string, stays bool, after func(out string, cancel context.CancelCauseFunc)) relayed {
	t.Helper()
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := forwardtest.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		if stays {
			_, _ = io.Copy(io.Discard, br)
		}
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r := forwardtest.NewRequest(address)
	r.IdleTimeout = 300 * time.Millisecond
	answer, err := tr.Do(ctx, r, transport.ReadOptions{API: api, TrackUsage: true})
	if err != nil {
		t.Fatal(err)
	}
	client, other := net.Pipe()
	defer client.Close()
	defer other.Close()
	var got relayed
	relay := &relay.Relay{Context: ctx, Response: answer, Client: client, RequestID: "r", OnOutcome: func(e relay.Outcome) {
		got.end = e
		got.known++
	}, OnClose: func() {
		if got.ended++; got.known != 1 {
			t.Errorf("OnClose was called after %d calls of OnOutcome", got.known)
		}
		cancel(nil) // as the owner of the request does
	}}
	var out bytes.Buffer
	_, got.err = relay.WriteTo(writerFunc(func(p []byte) (int, error) {
		out.Write(p)
		if got.known == 0 && answer.Stream() != nil && answer.Stream().Over() {
			t.Error("the client got the end before OnOutcome was called")
		}
		if after != nil {
			after(out.String(), cancel)
		}
		return len(p), nil
	}))
	_ = relay.Close()
	got.out = out.String()
	return got
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A relay measures the time in which its client has blocked it, without the time in which the engine was silent.
func TestBlockedOnClient(t *testing.T) {
	const silence, pause = 300 * time.Millisecond, 40 * time.Millisecond
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, forwardtest.StreamHead+forwardtest.Chunk(forwardtest.Delta("x")))
		time.Sleep(silence)
		_, _ = io.WriteString(c, forwardtest.Chunk(forwardtest.Delta("y"))+forwardtest.Chunk("data: [DONE]\n\n")+"0\r\n\r\n")
	})
	answer, err := forwardtest.NewTransport(t).Do(context.Background(), forwardtest.NewRequest(address), transport.ReadOptions{API: openai.Chat})
	if err != nil {
		t.Fatal(err)
	}
	client, other := net.Pipe()
	defer client.Close()
	defer other.Close()
	var blocked []time.Duration
	relay := &relay.Relay{Context: context.Background(), Response: answer, Client: client, OnOutcome: func(relay.Outcome) {}, OnClose: func() {}}
	relay.OnChunk = func() { blocked = append(blocked, relay.BlockedOnClient()) }
	began := time.Now()
	if _, err := relay.WriteTo(writerFunc(func(p []byte) (int, error) { time.Sleep(pause); return len(p), nil })); err != nil {
		t.Fatal(err)
	}
	for i, d := range blocked {
		if least := time.Duration(i+1) * pause; d < least || d > time.Since(began)-silence/2 {
			t.Errorf("after %d pieces of %v it says %v", i+1, pause, d)
		}
	}
	if len(blocked) < 2 {
		t.Errorf("%d pieces", len(blocked))
	}
}

// Each end of a relay is reported once, the client gets an error event where it needs one, and only a proper end looks complete.
func TestRelayOutcomes(t *testing.T) {
	someEvent, doneEvent := forwardtest.Delta("x"), "data: [DONE]\n\n"
	errDrain := errors.New("shutting down")
	long := strings.Repeat("0123456789", 10<<10)
	const imageEvent, partialEvent = "data: {\"type\":\"image_edit.completed\"}\n\n", "data: {\"type\":\"image_edit.partial_image\"}\n\n"
	const jsonHead = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
	at := func(what string, cause error) func(string, context.CancelCauseFunc) {
		return func(out string, cancel context.CancelCauseFunc) {
			if strings.HasSuffix(out, what) {
				cancel(cause)
			}
		}
	}
	for _, c := range []struct {
		name   string
		api    openai.API
		text   string
		stays  bool
		after  func(string, context.CancelCauseFunc)
		kind   relay.OutcomeKind
		reason string
		whole  bool   // it may look complete
		out    string // what the client received; … stands for the error event
	}{
		{"whole", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + forwardtest.Chunk(doneEvent) + "0\r\n\r\n", true, nil, relay.OutcomeCompleted, "", true, someEvent + doneEvent},
		{"cut at a chunk", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent), false, nil, relay.OutcomeEngineError, "truncated", false, someEvent + "…truncated"},
		{"cut in a chunk", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + "ff\r\ndata: {", false, nil, relay.OutcomeEngineError, "truncated", false, someEvent + "…truncated"},
		{"no end of the API's", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + "0\r\n\r\n", true, nil, relay.OutcomeEngineError, "truncated", false, someEvent + "…truncated"},
		{"cut behind the API's end", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + forwardtest.Chunk(doneEvent), false, nil, relay.OutcomeCompleted, "", true, someEvent + doneEvent},
		{"an event behind the API's end", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + forwardtest.Chunk(doneEvent) + forwardtest.Chunk(someEvent), true, nil,
			relay.OutcomeCompleted, "", true, someEvent + doneEvent},
		{"a comment behind the API's end", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent+doneEvent+": bye\n\n") + "0\r\nA: b\r\n\r\n", true, nil,
			relay.OutcomeCompleted, "", true, someEvent + doneEvent},
		{"garbage behind an error and its end", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk("data: {\"error\":{}}\n\n"+doneEvent+"\x00"), true, nil,
			relay.OutcomeEngineError, "error_event", true, "data: {\"error\":{}}\n\n" + doneEvent},
		{"an image, and another one cut", openai.Images, forwardtest.StreamHead + forwardtest.Chunk(imageEvent) + forwardtest.Chunk(partialEvent), false, nil,
			relay.OutcomeEngineError, "truncated", false, imageEvent + partialEvent + "…truncated"},
		{"an image, and another one missing", openai.Images, forwardtest.StreamHead + forwardtest.Chunk(imageEvent+partialEvent) + "0\r\n\r\n", true, nil,
			relay.OutcomeEngineError, "truncated", false, imageEvent + partialEvent + "…truncated"},
		{"two images", openai.Images, forwardtest.StreamHead + forwardtest.Chunk(imageEvent) + forwardtest.Chunk(partialEvent+imageEvent) + "0\r\n\r\n", true, nil,
			relay.OutcomeCompleted, "", true, imageEvent + partialEvent + imageEvent},
		{"error, then its end", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + forwardtest.Chunk("data: {\"error\":{}}\n\n"+doneEvent) + "0\r\n\r\n", true, nil,
			relay.OutcomeEngineError, "error_event", true, someEvent + "data: {\"error\":{}}\n\n" + doneEvent},
		{"error, then cut", openai.Responses, forwardtest.StreamHead + forwardtest.Chunk("data: {\"type\":\"x\"}\n\n") + forwardtest.Chunk("data: {\"type\":\"error\"}\n\n"), false, nil,
			relay.OutcomeEngineError, "truncated", false, "data: {\"type\":\"x\"}\n\ndata: {\"type\":\"error\"}\n\n"},
		{"silence", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent), true, nil, relay.OutcomeTimeout, reasons.IdleTimeout, false, someEvent + "…idle_timeout"},
		{"drained", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent), true, at(someEvent, errDrain), relay.OutcomeDrained, "draining", false, someEvent + "…draining"},
		{"drained with more at hand", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + forwardtest.Chunk(forwardtest.Delta("y")), true, at(someEvent, errDrain),
			relay.OutcomeDrained, "draining", false, someEvent + forwardtest.Delta("y") + "…draining"},
		{"client gone", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent), true, at(someEvent, server.ErrClientGone), relay.OutcomeClientGone, "", false, someEvent},
		{"client gone behind the end", openai.Chat, forwardtest.StreamHead + forwardtest.Chunk(someEvent) + forwardtest.Chunk(doneEvent), true, at(doneEvent, server.ErrClientGone),
			relay.OutcomeCompleted, "", true, someEvent + doneEvent},
		{"long", openai.Embeddings, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long), true, nil, relay.OutcomeCompleted, "", true, long},
		{"long, chunked", openai.Embeddings, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + forwardtest.Chunk(long) + "0\r\n\r\n", true, nil, relay.OutcomeCompleted, "", true, long},
		{"long, until the connection ends", openai.Embeddings, "HTTP/1.1 200 OK\r\n\r\n" + long, false, nil, relay.OutcomeEngineError, "truncated", false, long},
		{"long JSON, until the connection ends", openai.Embeddings, jsonHead + `["` + long + `"]`, false, nil, relay.OutcomeCompleted, "", true, `["` + long + `"]`},
		{"long JSON, cut", openai.Embeddings, jsonHead + `["` + long + `"`, false, nil, relay.OutcomeEngineError, "truncated", false, `["` + long + `"`},
		{"long, cut", openai.Embeddings, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long)+1, long), false, nil, relay.OutcomeEngineError, "truncated", false, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := forwardtest.NewTransport(t)
			got := relayFrom(t, transport, c.api, c.text, c.stays, c.after)
			if got.end.Kind != c.kind || got.end.Reason != c.reason || got.ended != 1 {
				t.Errorf("ended %d times, last with %+v: want once, %s %q", got.ended, got.end, c.kind, c.reason)
			}
			if (got.err == nil) != c.whole {
				t.Errorf("error %v: may look complete %v", got.err, c.whole)
			}
			want, ours, _ := strings.Cut(c.out, "…")
			rest, ok := strings.CutPrefix(got.out, want)
			if !ok || (rest == "") != (ours == "") || !strings.Contains(rest, `"reason":"`+ours) && ours != "" {
				t.Errorf("delivered %.300q, want %.300q", got.out, c.out)
			}
			// A connection whose response was read to its end is used again.
			if kept := c.stays && strings.HasSuffix(c.text, "0\r\n\r\n") || c.name == "long"; (transport.Idle() == 1) != kept {
				t.Errorf("%d idle connections, want the connection kept: %v", transport.Idle(), kept)
			}
		})
	}
}
