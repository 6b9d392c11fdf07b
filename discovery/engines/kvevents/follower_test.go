package kvevents_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colonnade/discovery/engines/kvevents"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a simulated engine of blocks of four tokens that publishes its events, and a follower of them.
type engine struct {
	t *testing.T
	*simengine.Engine
	*kvevents.Follower
	address string
}

func start(t *testing.T, blocks int) *engine {
	t.Helper()
	e := &engine{t: t, Engine: simengine.New(simengine.Config{TTFT: -1, ITL: -1, Tokens: 4, CacheBlocks: blocks, BlockTokens: 4})}
	stop := e.publish("127.0.0.1:0")
	t.Cleanup(func() { stop() })
	t.Cleanup(e.Close)
	e.Follower = follow(t, e.address)
	e.connected()
	return e
}

// publish serves the events at an address until the function that it returns is called.
func (e *engine) publish(address string) (stop func()) {
	e.t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		e.t.Fatal(err)
	}
	e.address = ln.Addr().String()
	return background(func(ctx context.Context) { e.ServeEvents(ctx, ln) })
}

func background(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	return func() { cancel(); <-done }
}

func follow(t *testing.T, address string) *kvevents.Follower {
	f := kvevents.New(kvevents.Config{Address: address, MinRetry: time.Millisecond, MaxRetry: 2 * time.Millisecond})
	t.Cleanup(background(f.Run))
	return f
}

func (e *engine) connected() {
	e.t.Helper()
	testkit.WaitFor(e.t, "a subscriber", func() bool { return e.Subscribers() == 1 })
}

// serve sends a prompt of words.
func (e *engine) serve(prompt string) {
	body := `{"model":"m","prompt":"` + prompt + `"}`
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(body)))
	if w.Code != http.StatusOK {
		e.t.Errorf("the engine answered %d", w.Code)
	}
}

func (e *engine) await(what string, ok func(kvevents.State) bool) {
	e.t.Helper()
	await(e.t, e.Follower, what, ok)
}

func await(t *testing.T, f *kvevents.Follower, what string, ok func(kvevents.State) bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("state is %+v", f.State())
		}
	}()
	testkit.WaitFor(t, what, func() bool { return ok(f.State()) })
}

func TestFollowCountsResidentTokens(t *testing.T) {
	e := start(t, 4)
	e.serve("a b c d")
	e.await("prompt and answer", func(s kvevents.State) bool { return s.Known && s.Tokens == 8 && !s.Evicting && s.Connected })
	e.serve("e f g h i j k l m")
	e.await("a full cache", func(s kvevents.State) bool { return s.Known && s.Tokens == 16 && s.Evicting })
	e.ClearCache()
	e.await("an empty cache", func(s kvevents.State) bool { return s.Known && s.Tokens == 0 && !s.Evicting && s.Clears == 1 })
}

func TestFollowFaults(t *testing.T) {
	for _, fault := range []string{simengine.FaultEventsLost, simengine.FaultEventsGarbage, simengine.FaultEventsLying} {
		t.Run(fault, func(t *testing.T) {
			e := start(t, 100)
			e.serve("a b c d")
			e.await("a count", func(s kvevents.State) bool { return s.Known && s.Tokens == 8 })
			e.SetFault(simengine.Fault{Fault: fault, Count: 1})
			e.serve("e f g h") // one message for its prompt, and one for its answer
			e.await("an unknown count", func(s kvevents.State) bool { return !s.Known })
			e.ClearCache()
			e.serve("i j k l")
			e.await("a count again", func(s kvevents.State) bool { return s.Known && s.Tokens == 8 })
		})
	}
}

func TestFollowReconnects(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, Engine: simengine.New(simengine.Config{TTFT: -1, ITL: -1, Tokens: 4, CacheBlocks: 100, BlockTokens: 4})}
	t.Cleanup(e.Close)
	e.address = ln.Addr().String()
	stop := background(func(ctx context.Context) { e.ServeEvents(ctx, ln) })
	e.Follower = follow(t, e.address)
	e.connected()
	e.serve("a b c d")
	e.await("a count", func(s kvevents.State) bool { return s.Tokens == 8 })
	stop()
	e.await("the end of the connection", func(s kvevents.State) bool { return !s.Connected && s.Error != "" })
	stop = e.publish(e.address)
	e.connected()
	e.serve("e f g h")
	e.await("a count that still holds", func(s kvevents.State) bool { return s.Known && s.Tokens == 16 })
	stop()

	e.Engine.Close()
	e.Engine = simengine.New(simengine.Config{TTFT: -1, ITL: -1, Tokens: 4, CacheBlocks: 100, BlockTokens: 4})
	t.Cleanup(e.Close)
	stop = e.publish(e.address)
	t.Cleanup(func() { stop() })
	e.connected()
	e.serve("a b c d")
	e.await("a count of the new engine", func(s kvevents.State) bool { return s.Known && s.Tokens == 8 && s.Restarts == 1 && s.Clears == 0 })
}

func TestFollowLateSubscriberKnowsNothing(t *testing.T) {
	e := start(t, 100)
	e.serve("a b c d")
	late := follow(t, e.address)
	testkit.WaitFor(t, "two subscribers", func() bool { return e.Subscribers() == 2 })
	e.serve("e f g h")
	await(t, late, "an unknown count", func(s kvevents.State) bool { return s.Events > 0 && !s.Known })
	e.ClearCache()
	await(t, late, "a known count", func(s kvevents.State) bool { return s.Known && s.Clears == 1 })
}

// TestFollowRefusesFloods has a publisher that announces a message of 2^62 bytes, one without end, and one that speaks something else.
func TestFollowRefusesFloods(t *testing.T) {
	hello := append([]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL"), make([]byte, 48)...)
	ready := append(hello, "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"...)
	for name, sends := range map[string]func(net.Conn){
		"long frame": func(c net.Conn) {
			_, _ = c.Write(binary.BigEndian.AppendUint64(append(ready[:len(ready):len(ready)], 2), 1<<62))
		},
		"frames without end": func(c net.Conn) {
			_, _ = c.Write(append(ready[:len(ready):len(ready)], strings.Repeat("\x01\x01x", 20)...))
		},
		"another protocol": func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 10))) },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(background(func(context.Context) {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					sends(c)
					_, _ = io.Copy(io.Discard, c) // until the follower leaves
					c.Close()
				}
			}))
			t.Cleanup(func() { ln.Close() })
			f := follow(t, ln.Addr().String())
			await(t, f, "an error", func(s kvevents.State) bool { return strings.Contains(s.Error, "publisher") })
		})
	}
}

// The ranks of one engine count together, and what they say is known once it is of all of them.
func TestFollowRanks(t *testing.T) {
	one, two := start(t, 4), start(t, 100)
	states := make(chan kvevents.State, 100)
	t.Cleanup(background(func(ctx context.Context) {
		kvevents.Follow(ctx, []string{one.address, two.address}, func(s kvevents.State) { states <- s })
	}))
	last := func(what string, ok func(kvevents.State) bool) {
		t.Helper()
		var s kvevents.State
		deadline := time.After(time.Minute)
		for !ok(s) {
			select {
			case s = <-states:
			case <-deadline:
				t.Fatalf("no %s: %+v", what, s)
			}
		}
	}
	for _, e := range []*engine{one, two} {
		testkit.WaitFor(t, "a second subscriber", func() bool { return e.Subscribers() == 2 })
	}
	last("connection", func(s kvevents.State) bool { return s.Connected })
	one.serve("a b c d e f g h i j k l m")
	last("half of a count", func(s kvevents.State) bool { return s.Tokens == 16 && !s.Known && s.Events > 0 })
	two.serve("a b c d")
	last("count of both", func(s kvevents.State) bool { return s.Tokens == 24 && s.Known && !s.Evicting })
	one.ClearCache()
	last("clearing of one", func(s kvevents.State) bool { return s.Clears == 1 && s.Tokens == 8 })
}
