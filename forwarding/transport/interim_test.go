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

// Interim answers are bounded, and what cannot be read in one way only is no answer; its connection is not used again.
func TestInterimAnswersRefused(t *testing.T) {
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
			told := 0
			r := forwardtest.NewRequest(address)
			if c.asked {
				r.OnProgress = func(hop.Progress) { told++ }
			}
			_, err := tr.Do(t.Context(), r, transport.ReadOptions{})
			var failed *transport.ExchangeError
			if !errors.Is(err, transport.ErrMalformed) || !errors.As(err, &failed) || failed.Phase != transport.PhaseFirstByte {
				t.Errorf("got %v", err)
			}
			if told > 3*transport.MaxInterim { // a second and more, on a busy machine
				t.Errorf("told %d times", told)
			}
			if n := tr.Idle(); n != 0 {
				t.Errorf("%d idle connections", n)
			}
		})
	}
}

// heartStops is when beats of a millisecond do not come any more.
const heartStops = 10 * time.Second

// Until the first byte a silence is interrupted for the pulse, which changes no deadline; and never after it.
func TestPulse(t *testing.T) {
	event := "data: {\"a\":1}\n\n"
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n: x\n\r\n%x\r\n%s\r\n", len(event), event)
	tr := forwardtest.NewTransport(t)
	beats := 0
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
	r.FirstByteTimeout = heartStops
	r.Tick = func() time.Duration {
		if beats++; beats == 6 {
			close(speak)
		}
		return time.Millisecond
	}
	a, err := tr.Do(t.Context(), r, transport.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if beats < 6 {
		t.Errorf("%d beats before the first byte", beats)
	}
	before := beats
	time.AfterFunc(20*time.Millisecond, func() { close(more) })
	for err == nil {
		_, err = a.Next()
	}
	if a.Close(); !errors.Is(err, io.EOF) || beats != before {
		t.Errorf("%v, and %d beats after the first byte", err, beats-before)
	}
}

func TestPulseKeepsDeadlines(t *testing.T) {
	tr := forwardtest.NewTransport(t)
	address := forwardtest.ListenRaw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	beat := func() time.Duration { return time.Millisecond }
	r := forwardtest.NewRequest(address)
	r.Tick, r.FirstByteTimeout = beat, 50*time.Millisecond
	var failed *transport.ExchangeError
	if _, err := tr.Do(t.Context(), r, transport.ReadOptions{}); !errors.As(err, &failed) || !failed.Timeout || failed.Phase != transport.PhaseFirstByte {
		t.Errorf("got %v, want no first byte in time", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, beats := forwardtest.NewRequest(address), 0
	r.FirstByteTimeout = heartStops
	r.Tick = func() time.Duration {
		if beats++; beats == 5 {
			cancel(server.ErrClientGone)
		}
		return beat()
	}
	if _, err := tr.Do(ctx, r, transport.ReadOptions{}); !errors.Is(err, server.ErrClientGone) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

// Interim answers are passed on to a request that asked for them, and the connection is used again; for any other they
// say nothing.
func TestInterimAnswers(t *testing.T) {
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
			t.Errorf("asked %v: told %v", asked, got)
		}
	}
	if n := tr.Idle(); n != 1 {
		t.Errorf("%d idle connections, want 1", n)
	}
}
