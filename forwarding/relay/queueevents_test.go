package relay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// recorded is a stream with what it has written and called.
type recorded struct {
	*relay.QueueEventStream
	ctx      context.Context
	client   net.Conn // the client's end
	out      bytes.Buffer
	outcomes []relay.OutcomeKind
	closes   int
	crash    string
}

func newRecorded(t *testing.T) *recorded {
	near, far := net.Pipe()
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	w := &recorded{ctx: ctx, client: far}
	w.QueueEventStream = &relay.QueueEventStream{
		Relay: &relay.Relay{Context: ctx, Client: near, RequestID: "r",
			OnOutcome: func(e relay.Outcome) { w.outcomes = append(w.outcomes, e.Kind) }, OnClose: func() { w.closes++ }},
		Route: openai.Route{API: openai.Chat}, Cancel: cancel,
		OnPanic: func(panicked, _ string) *openai.Error {
			w.crash = panicked
			return openai.Internal()
		},
	}
	return w
}

func (w *recorded) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *recorded) wantOut(t *testing.T, want string) {
	t.Helper()
	if got := w.out.String(); got != want {
		t.Errorf("after the client read %q, want %q", got, want)
	}
}

// Progress is sent at once but at most each second, where the latest counts, and a heartbeat after a silence.
func TestQueueEventsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRecorded(t)
		next := func(want time.Duration) {
			t.Helper()
			if got := w.Tick(); got != want {
				t.Errorf("the next tick is in %v, want %v", got, want)
			}
		}
		w.Resolve = func() (*transport.Response, *openai.Error) {
			next(relay.HeartbeatInterval)
			w.ReportProgress(hop.Progress{Position: 5})
			w.wantOut(t, ": queue position=5\n\n")
			time.Sleep(300 * time.Millisecond)
			w.ReportProgress(hop.Progress{Position: 4})
			w.ReportProgress(hop.Progress{Position: 3, Expected: 1500 * time.Millisecond, Known: true})
			w.wantOut(t, ": queue position=5\n\n")
			next(700 * time.Millisecond)
			time.Sleep(700 * time.Millisecond)
			next(relay.HeartbeatInterval)
			w.wantOut(t, ": queue position=5\n\n: queue position=3 expected_ms=1500\n\n")
			w.out.Reset()
			w.ReportProgress(hop.Progress{Position: 3, Expected: 1500 * time.Millisecond, Known: true}) // not new
			time.Sleep(relay.HeartbeatInterval)
			next(relay.HeartbeatInterval)
			w.wantOut(t, ": heartbeat\n\n")
			time.Sleep(time.Millisecond)
			w.ReportProgress(hop.Progress{Position: 2})
			w.ReportProgress(hop.Progress{Position: 1})
			w.ResetProgress() // before it was sent
			time.Sleep(time.Second)
			next(relay.HeartbeatInterval - time.Second)
			w.wantOut(t, ": heartbeat\n\n: queue position=2\n\n")
			return nil, openai.OutOfCapacity("queue_timeout", 2*time.Second)
		}
		_, err := w.WriteTo(w)
		if _, last, _ := strings.Cut(w.out.String(), "data: "); !errors.Is(err, relay.ErrTruncated) || w.closes != 1 || len(w.outcomes) != 0 ||
			!strings.HasPrefix(last, `{"error":{"message":"Capacity`) || !strings.Contains(last, `"retry_after_ms":2000`) || !strings.HasSuffix(last, "}\n\n") {
			t.Errorf("it ended with %v, %q", err, w.out.String())
		}
		if err := w.Close(); err != nil || w.closes != 1 {
			t.Errorf("closed again: %v, ended %d times", err, w.closes)
		}
	})
}

// A client that does not read comments has gone, and so has one that leaves during a write.
func TestQueueEventsStall(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newRecorded(t)
			began := time.Now()
			want := netconn.WriteStall
			if leaves {
				want = time.Second
				time.AfterFunc(want, func() { w.Cancel(server.ErrClientGone) })
			}
			w.Resolve = func() (*transport.Response, *openai.Error) {
				w.ReportProgress(hop.Progress{Position: 1})
				if took := time.Since(began); took != want || !errors.Is(context.Cause(w.ctx), server.ErrClientGone) {
					t.Errorf("after %v the cause is %v", took, context.Cause(w.ctx))
				}
				return nil, nil
			}
			if _, err := w.WriteTo(w.Relay.Client); !errors.Is(err, relay.ErrTruncated) || w.closes != 1 {
				t.Errorf("%v, ended %d times", err, w.closes)
			}
		})
	}
}

// The error at the end is written: soon to a client whose request is cancelled, and to any other as slowly as it reads.
func TestQueueEventsEndWithAnError(t *testing.T) {
	for _, drains := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newRecorded(t)
			w.OnClose = func() {
				w.closes++
				w.Cancel(nil) // as the owner of the request does
			}
			var heard []byte
			read := make(chan struct{})
			go func() {
				defer close(read)
				if !drains {
					time.Sleep(netconn.WriteStall - time.Second)
				}
				heard, _ = io.ReadAll(w.client)
			}()
			w.Resolve = func() (*transport.Response, *openai.Error) {
				if drains {
					w.Cancel(errors.New("shutting down"))
				}
				return nil, openai.Unavailable("draining", time.Second)
			}
			_, err := w.WriteTo(w.Relay.Client)
			w.Relay.Client.Close()
			<-read
			if !errors.Is(err, relay.ErrTruncated) || w.closes != 1 || !strings.Contains(string(heard), `"reason":"draining"`) {
				t.Errorf("%v, ended %d times, %q", err, w.closes, heard)
			}
		})
	}
}

// The drain waits only a moment for a client that does not read the error of its cancelled request.
func TestQueueEventsDrainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRecorded(t)
		began := time.Now()
		w.Resolve = func() (*transport.Response, *openai.Error) {
			w.Cancel(errors.New("shutting down"))
			return nil, openai.Unavailable("draining", time.Second)
		}
		if _, err := w.WriteTo(w.Relay.Client); !errors.Is(err, relay.ErrTruncated) || time.Since(began) != server.FinalWriteTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A panic ends one stream, and a stream that is never written closes its request.
func TestQueueEventsPanic(t *testing.T) {
	w := newRecorded(t)
	w.Resolve = func() (*transport.Response, *openai.Error) { panic("a bug of ours") }
	if _, err := w.WriteTo(w); !errors.Is(err, relay.ErrTruncated) || w.closes != 1 || w.crash == "" ||
		!strings.Contains(w.out.String(), `"number":50000`) {
		t.Errorf("%v, ended %d times, %q, %q", err, w.closes, w.crash, w.out.String())
	}
	w = newRecorded(t)
	for range 2 {
		_ = w.Close()
	}
	if w.closes != 1 || len(w.outcomes) != 1 || w.outcomes[0] != relay.OutcomeClientGone {
		t.Errorf("ended %d times, %v", w.closes, w.outcomes)
	}
	w = newRecorded(t)
	w.Resolve = func() (*transport.Response, *openai.Error) { panic("a bug of ours") }
	w.OnPanic = func(string, string) *openai.Error { panic("another") }
	func() {
		defer func() { _ = recover() }() // as the server does
		_, _ = w.WriteTo(w)
	}()
	if w.closes != 1 {
		t.Errorf("ended %d times", w.closes)
	}
}

// A panic, and another one while the first is handled, close the request once.
func TestQueueEventsPanicTwice(t *testing.T) {
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"+forwardtest.Delta("x"))
	})
	tr := forwardtest.NewTransport(t)
	w := newRecorded(t)
	w.Resolve = func() (*transport.Response, *openai.Error) {
		a, err := tr.Do(w.ctx, forwardtest.NewRequest(address), transport.ReadOptions{API: openai.Chat})
		if err != nil {
			t.Error(err)
		}
		return a, nil
	}
	w.OnChunk = func() { panic("a bug of ours") }
	w.OnOutcome = func(relay.Outcome) { panic("another") }
	written := make(chan error, 1)
	go func() {
		_, err := w.WriteTo(w)
		_ = w.Close()
		written <- err
	}()
	select {
	case err := <-written:
		if !errors.Is(err, relay.ErrTruncated) || w.closes != 1 || w.crash == "" || !strings.Contains(w.out.String(), `"number":50000`) {
			t.Errorf("%v, ended %d times, %q, %q", err, w.closes, w.crash, w.out.String())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

// Once it has a response the stream is a relay.
func TestQueueEventsRelay(t *testing.T) {
	stream := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	for text, want := range map[string]relay.OutcomeKind{
		forwardtest.Delta("x") + "data: [DONE]\n\n": relay.OutcomeCompleted,
		forwardtest.Delta("x"):                      relay.OutcomeEngineError,
	} {
		address := forwardtest.ListenRaw(t, func(c net.Conn) {
			b := make([]byte, 4<<10)
			_, _ = c.Read(b)
			_, _ = io.WriteString(c, forwardtest.ProgressLine("position=2")+stream+text)
		})
		tr := forwardtest.NewTransport(t)
		w := newRecorded(t)
		w.Resolve = func() (*transport.Response, *openai.Error) {
			r := forwardtest.NewRequest(address)
			r.OnProgress, r.Tick = w.ReportProgress, w.Tick
			a, err := tr.Do(w.ctx, r, transport.ReadOptions{API: openai.Chat})
			if err != nil {
				t.Fatal(err)
			}
			return a, nil
		}
		_, err := w.WriteTo(w)
		_ = w.Close()
		if w.closes != 1 || len(w.outcomes) != 1 || w.outcomes[0] != want || (err == nil) != (want == relay.OutcomeCompleted) ||
			!strings.HasPrefix(w.out.String(), ": queue position=2\n\n"+forwardtest.Delta("x")) {
			t.Errorf("ended %d times, %v, %v, %q", w.closes, w.outcomes, err, w.out.String())
		}
	}
}
