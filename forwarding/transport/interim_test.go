package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

const wholeAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// Too many interim responses, and malformed ones, fail the exchange, and their connection is not used again.
func TestBadInterimResponses(t *testing.T) {
	tr := forwardtest.NewTransport(t)
	for name, c := range map[string]struct {
		says  string
		asked bool
	}{
		"a flood":                  {strings.Repeat(forwardtest.ProgressLine("position=1"), 5000), true},
		"a flood not asked for":    {strings.Repeat(forwardtest.ProgressLine("position=1"), transport.MaxInterim+1), false},
		"a flood of others":        {strings.Repeat(forwardtest.Interim("Link: x"), 5000), true},
		"one that is long":         {forwardtest.ProgressLine("position=1;" + strings.Repeat("x", transport.MaxInterimHead)), true},
		"no position":              {forwardtest.ProgressLine("expected_ms=5"), true},
		"position 0":               {forwardtest.ProgressLine("position=0"), true},
		"a negative position":      {forwardtest.ProgressLine("position=-1"), true},
		"a great position":         {forwardtest.ProgressLine("position=4000000000"), true},
		"a position that is none":  {forwardtest.ProgressLine("position=1 2"), true},
		"a wait that is none":      {forwardtest.ProgressLine("position=1;expected_ms=NaN"), true},
		"one with a body":          {forwardtest.Interim(hop.HeaderProgress+": position=1\r\nContent-Length: 9") + "HTTP/1.1 ", true},
		"one with a line too much": {forwardtest.ProgressLine("position=1\nx: y"), true},
	} {
		t.Run(name, func(t *testing.T) {
			address := forwardtest.ListenRaw(t, forwardtest.AnswerWith(c.says+wholeAnswer))
			calls := 0
			r := forwardtest.NewRequest(address)
			if c.asked {
				r.OnProgress = func(hop.Progress) { calls++ }
			}
			_, err := tr.Do(t.Context(), r, transport.ReadOptions{})
			var failed *transport.ExchangeError
			if !errors.Is(err, transport.ErrMalformed) || !errors.As(err, &failed) || failed.Phase != transport.PhaseFirstByte {
				t.Errorf("got %v", err)
			}
			if calls > 3*transport.MaxInterim { // a second and more, on a busy machine
				t.Errorf("%d calls", calls)
			}
			if n := tr.Idle(); n != 0 {
				t.Errorf("%d idle connections", n)
			}
		})
	}
}

// longAfter is far beyond the time between two ticks.
const longAfter = 10 * time.Second

// Tick is called while the server is silent until the first byte, and never after it.
func TestTickUntilTheFirstByte(t *testing.T) {
	event := "data: {\"a\":1}\n\n"
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n: x\n\r\n%x\r\n%s\r\n", len(event), event)
	tr := forwardtest.NewTransport(t)
	ticks := 0
	speak, more := make(chan struct{}), make(chan struct{})
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		half := len(answer) - 10 // in the middle of the first event
		_, _ = io.WriteString(c, answer[:half])
		<-speak
		_, _ = io.WriteString(c, answer[half:])
		<-more
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	r := forwardtest.NewRequest(address)
	r.FirstByteTimeout = longAfter
	r.Tick = func() time.Duration {
		if ticks++; ticks == 6 {
			close(speak)
		}
		return time.Millisecond
	}
	a, err := tr.Do(t.Context(), r, transport.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ticks < 6 {
		t.Errorf("%d ticks before the first byte", ticks)
	}
	before := ticks
	time.AfterFunc(20*time.Millisecond, func() { close(more) })
	for err == nil {
		_, err = a.Next()
	}
	if a.Close(); !errors.Is(err, io.EOF) || ticks != before {
		t.Errorf("%v, and %d ticks after the first byte", err, ticks-before)
	}
}

func TestTickMovesNoDeadline(t *testing.T) {
	tr := forwardtest.NewTransport(t)
	address := forwardtest.ListenRaw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	tick := func() time.Duration { return time.Millisecond }
	r := forwardtest.NewRequest(address)
	r.Tick, r.FirstByteTimeout = tick, 50*time.Millisecond
	var failed *transport.ExchangeError
	if _, err := tr.Do(t.Context(), r, transport.ReadOptions{}); !errors.As(err, &failed) || !failed.Timeout || failed.Phase != transport.PhaseFirstByte {
		t.Errorf("got %v, want no first byte in time", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, ticks := forwardtest.NewRequest(address), 0
	r.FirstByteTimeout = longAfter
	r.Tick = func() time.Duration {
		if ticks++; ticks == 5 {
			cancel(server.ErrClientGone)
		}
		return tick()
	}
	if _, err := tr.Do(ctx, r, transport.ReadOptions{}); !errors.Is(err, server.ErrClientGone) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

// A request that asks for progress gets that of interim responses, and any other request ignores them. The connection is used again.
func TestInterimResponses(t *testing.T) {
	said := forwardtest.ProgressLine("position=3;expected_ms=1200;new=field") + forwardtest.Interim("Link: x") + forwardtest.ProgressLine("position=1")
	address := forwardtest.ListenRaw(t, forwardtest.AnswerWith(said+wholeAnswer))
	tr := forwardtest.NewTransport(t)
	want := []hop.Progress{{Position: 3, Expected: 1200 * time.Millisecond, Known: true}, {Position: 1}}
	for _, asked := range []bool{true, false, true} {
		var got []hop.Progress
		r := forwardtest.NewRequest(address)
		if asked {
			r.OnProgress = func(p hop.Progress) { got = append(got, p) }
		}
		a, err := tr.Do(t.Context(), r, transport.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if body, whole := a.Body(); a.Status() != 200 || !whole || string(body) != "{}" {
			t.Errorf("answer %d %q", a.Status(), body)
		}
		a.Close()
		if asked && !slices.Equal(got, want) || !asked && got != nil {
			t.Errorf("asked %v: progress %v", asked, got)
		}
	}
	if n := tr.Idle(); n != 1 {
		t.Errorf("%d idle connections, want 1", n)
	}
}
