package simengine_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/simengine"
)

const streamBody = `{"model":"m","messages":[],"stream":true}`

func TestBatchTakesSlotsThenQueues(t *testing.T) {
	e, addr := start(t, simengine.Config{Slots: 2, TTFT: time.Hour})
	var all []raw
	for range 5 {
		c := dial(t, addr)
		c.post("/v1/chat/completions", streamBody)
		all = append(all, c)
	}
	waitForStats(t, e, "two run, three wait", func(st simengine.Stats) bool { return st.Running == 2 && st.Waiting == 3 })
	for _, c := range all {
		c.Close()
	}
	waitForStats(t, e, "all aborted", func(st simengine.Stats) bool {
		return st.Running+st.Waiting == 0 && st.Aborted == 5 && st.Peak == 5
	})
}

// When a client leaves, the engine ends its request at once, and then closes the connection.
func TestClientLeaves(t *testing.T) {
	f := func(name string, c simengine.Config, body, await string, leave func(raw)) {
		t.Run(name, func(t *testing.T) {
			e, addr := start(t, c)
			client := dial(t, addr)
			client.post("/v1/chat/completions", body)
			waitForStats(t, e, "it runs", func(st simengine.Stats) bool { return st.Running == 1 })
			client.await(await)
			leave(client)
			waitForStats(t, e, "it is aborted", func(st simengine.Stats) bool { return st.Running == 0 && st.Aborted == 1 })
		})
	}
	silent := simengine.Config{TTFT: time.Hour}
	talking := simengine.Config{TTFT: -1, ITL: 20 * time.Millisecond, Tokens: 100_000}
	closes := func(c raw) { c.Close() }
	resets := func(c raw) { _ = c.SetLinger(0); c.Close() }
	halfCloses := func(c raw) {
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c) // until the engine closes its side too
	}
	for name, leave := range map[string]func(raw){"closes": closes, "resets": resets, "half-closes": halfCloses} {
		f(name+" before the first token", silent, streamBody, "", leave)
		f(name+" in a plain answer", silent, chatBody+"}", "", leave)
		f(name+" in mid-stream", talking, streamBody, "[{", leave)
	}
}

func TestQueuedClientLeaves(t *testing.T) {
	e, addr := start(t, simengine.Config{Slots: 1, TTFT: time.Hour})
	first, second := dial(t, addr), dial(t, addr)
	first.post("/v1/chat/completions", streamBody)
	waitForStats(t, e, "the first runs", func(st simengine.Stats) bool { return st.Running == 1 })
	second.post("/v1/chat/completions", streamBody)
	waitForStats(t, e, "the second waits", func(st simengine.Stats) bool { return st.Waiting == 1 })
	_ = second.CloseWrite()
	if got := second.rest(); got != "" {
		t.Errorf("the second got %q", got)
	}
	if st := e.Stats(); st.Waiting != 0 || st.Aborted != 1 || st.Running != 1 {
		t.Errorf("stats %+v", st)
	}
}

// A client that does not read blocks the engine in a write.
func TestClientThatDoesNotReadLeaves(t *testing.T) {
	for name, body := range map[string]string{"streamed": streamBody, "plain": chatBody + "}"} {
		t.Run(name, func(t *testing.T) {
			e, addr := start(t, fast())
			e.SetFault(simengine.Fault{Fault: simengine.FaultBigAnswer})
			c := dial(t, addr)
			_ = c.SetReadBuffer(64 << 10)
			c.post("/v1/chat/completions", body)
			last := uint64(0)
			waitForStats(t, e, "the engine is stuck", func(st simengine.Stats) bool {
				time.Sleep(50 * time.Millisecond)
				stuck := st.Bytes > 0 && st.Bytes == last
				last = st.Bytes
				return stuck
			})
			if last > 4<<20 {
				t.Errorf("the network took %d bytes for a client that reads none", last)
			}
			_ = c.CloseWrite()
			waitForStats(t, e, "it is aborted", func(st simengine.Stats) bool { return st.Running == 0 && st.Aborted == 1 })
		})
	}
}

// Callers that send their next request only after the last has ended, or its connection was closed, never make the
// engine's peak exceed their number.
func TestPeakNeverExceedsCallers(t *testing.T) {
	const callers = 4
	c := simengine.Config{Slots: callers, TTFT: time.Millisecond, ITL: -1, Tokens: 8}
	e, addr := start(t, c)
	e.SetFault(simengine.Fault{Model: "endless", Fault: simengine.FaultEndlessLine})
	stop := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: patience}
			for time.Now().Before(stop) {
				switch rand.IntN(5) {
				case 0: // leaves, and waits for the engine's close
					conn := dial(t, addr)
					conn.post("/v1/chat/completions", streamBody)
					leave(conn.TCPConn)
				case 1:
					conn := dial(t, addr)
					conn.post("/v1/chat/completions", `{"model":"endless"}`)
					leave(conn.TCPConn)
				case 2:
					s := openSession(t, addr)
					s.say(`{"type":"response.create"}`)
					leave(s.NetConn().(*net.TCPConn))
				case 3: // takes the stream's proper end as the end of the request
					conn := dial(t, addr)
					conn.post("/v1/chat/completions", streamBody)
					conn.await("[DONE]")
					_ = conn.Close()
				default:
					exchange(t, client, addr, chatBody+"}")
				}
			}
		})
	}
	all.Wait()
	st := e.Stats()
	t.Logf("%+v", st)
	if st.Peak > callers || st.Running+st.Waiting != 0 {
		t.Errorf("peak %d, want at most %d, and no caller left", st.Peak, callers)
	}
	if st.Served == 0 || st.Aborted == 0 || st.Served+st.Aborted != st.Requests {
		t.Errorf("served %d and aborted %d of %d requests", st.Served, st.Aborted, st.Requests)
	}
}

// leave half-closes after a moment, and waits for the engine's close.
func leave(c *net.TCPConn) {
	time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

func exchange(t *testing.T, client *http.Client, addr, body string) {
	resp, err := client.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}

func TestServeEnds(t *testing.T) {
	f := func(name string, end func(context.CancelFunc, *simengine.Engine)) {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			e := simengine.New(simengine.Config{TTFT: time.Hour, Slots: 1})
			e.SetFault(simengine.Fault{Model: "loud", Fault: simengine.FaultEndlessLine})
			defer e.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- simengine.Serve(ctx, ln, e) }()

			running, waiting, dripping := dial(t, ln.Addr().String()), dial(t, ln.Addr().String()), dial(t, ln.Addr().String())
			running.post("/v1/chat/completions", streamBody)
			waitForStats(t, e, "one runs", func(st simengine.Stats) bool { return st.Running == 1 })
			waiting.post("/v1/chat/completions", `{"model":"loud"}`)
			waitForStats(t, e, "one waits", func(st simengine.Stats) bool { return st.Waiting == 1 })
			fmt.Fprint(dripping, "POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\nContent-Length: 100\r\n\r\n{")
			waitForStats(t, e, "one sends", func(st simengine.Stats) bool { return st.Requests == 3 })

			end(cancel, e)
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Serve: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("Serve did not end")
			}
			for _, c := range []raw{running, waiting, dripping} {
				if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
					t.Errorf("the connection was not closed: %v", err)
				}
			}
			if st := e.Stats(); st.Running+st.Waiting != 0 || st.Aborted != 2 {
				t.Errorf("stats %+v", st)
			}
		})
	}
	f("with its context", func(cancel context.CancelFunc, _ *simengine.Engine) { cancel() })
	f("with the engine", func(_ context.CancelFunc, e *simengine.Engine) { e.Close() })
}

// On an http.Server of the caller, Close also ends a request that is being read.
func TestCloseEndsAReader(t *testing.T) {
	e := simengine.New(fast())
	srv := httptest.NewServer(e)
	defer srv.Close()
	c := dial(t, srv.Listener.Addr().String())
	fmt.Fprint(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\nContent-Length: 100\r\n\r\n{")
	waitForStats(t, e, "it sends", func(st simengine.Stats) bool { return st.Requests == 1 })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("Close waits for a client that does not send")
		c.Close()
		<-closed
		return
	}
	if got := c.rest(); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestServeAgain(t *testing.T) {
	e := simengine.New(fast())
	defer e.Close()
	for i := range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- simengine.Serve(ctx, ln, e) }()
		readAll(t, post(t, ln.Addr().String(), "/v1/chat/completions", chatBody+"}"))
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if st := e.Stats(); st.Served != uint64(i+1) {
			t.Errorf("served %d, want %d", st.Served, i+1)
		}
	}
}

func TestServeSaysWhyItFailed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := simengine.Serve(t.Context(), ln, simengine.New(fast())); err == nil || !strings.Contains(err.Error(), "cannot serve") {
		t.Errorf("a closed listener gave %v", err)
	}
}
