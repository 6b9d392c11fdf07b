package realtime_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/internal/forwardtest"
)

// An end that sends invalid UTF-8 gets close code 1007, and the other end does not get the message.
func TestInvalidUTF8(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		got := make(chan error, 1)
		engine, seen := wsEngine(t, func(c *websocket.Conn) error {
			_, _, err := c.ReadMessage()
			got <- err
			return err
		})
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
		c := dialWS(t, address)
		if err := c.WriteMessage(websocket.TextMessage, []byte("\xed\xa0\x80")); err != nil {
			t.Fatal(err)
		}
		wantClose(t, c, 1007, "not UTF-8")
		if err := forwardtest.Receive(t, "what the engine got", got); !websocket.IsCloseError(err, 1001) {
			t.Errorf("the engine got %v", err)
		}
		if end := forwardtest.Receive(t, "the end", ends); end.Kind != realtime.OutcomeRefused || end.Reason != "not_utf8" || end.MessagesIn != 0 {
			t.Errorf("ended with %+v", end)
		}
		forwardtest.Receive(t, "the engine's end", seen)
	})
	t.Run("engine", func(t *testing.T) {
		engine, seen := wsEngine(t, func(c *websocket.Conn) error {
			_ = c.WriteMessage(websocket.TextMessage, []byte("caf\xe9"))
			return listenOnly(c)
		})
		address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
		wantClose(t, dialWS(t, address), 1011, "the inference engine failed")
		if end := forwardtest.Receive(t, "the end", ends); end.Kind != relay.OutcomeEngineError || end.Reason != "not_utf8" || !end.EngineFault {
			t.Errorf("ended with %+v", end)
		}
		if err := forwardtest.Receive(t, "the engine's end", seen); !websocket.IsCloseError(err, 1007) {
			t.Errorf("the engine saw %v", err)
		}
	})
}

// A client that sends too many messages is read slowly, and loses none.
func TestTooManyMessages(t *testing.T) {
	t.Parallel()
	const over = 300 * time.Millisecond
	engine, _ := wsEngine(t, listenOnly)
	address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
	c := dialWS(t, address)
	began := time.Now()
	n := realtime.MessageBurst + int(realtime.MessageRate*over/time.Second)
	go func() {
		_, _ = io.WriteString(c.NetConn(), strings.Repeat("\x82\x80\x00\x00\x00\x00", n)+"\x88\x82\x00\x00\x00\x00\x03\xe8")
	}()
	wantClose(t, c, 1000, "")
	if end := forwardtest.Receive(t, "the end", ends); end.Kind != relay.OutcomeCompleted || end.MessagesIn != int64(n) {
		t.Errorf("ended with %+v", end)
	}
	if took := time.Since(began); took < over-2*realtime.MinDelay {
		t.Errorf("%d messages took %v", n, took)
	}
}

// Messages between them do not allow for a flood of control frames.
func TestControlFramesBetweenMessages(t *testing.T) {
	engine, _ := wsEngine(t, listenOnly)
	address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{})
	c := dialWS(t, address)
	go flood(c.NetConn(), "", strings.Repeat("\x89\x80\x00\x00\x00\x00", 100)+"\x82\x80\x00\x00\x00\x00")
	go func() { _, _ = io.Copy(io.Discard, c.NetConn()) }()
	if end := forwardtest.Receive(t, "the end", ends); end.Kind != realtime.OutcomeRefused || end.Reason != "too_many_fragments" {
		t.Errorf("ended with %+v", end)
	}
}

// A client that reads slowly and sends pings gets its pongs when it reads.
func TestPingsOfASlowReader(t *testing.T) {
	t.Parallel()
	engine, _ := wsEngine(t, func(c *websocket.Conn) error {
		for {
			if err := c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	})
	address, _, _ := sessionServer(t, engine, realtime.SessionLimits{})
	c := dialWS(t, address)
	var pongs strings.Builder
	c.SetPongHandler(func(payload string) error {
		pongs.WriteString(payload)
		return nil
	})
	time.Sleep(100 * time.Millisecond) // until nothing more can be sent
	const pings = "abcdef"
	for _, ping := range pings { // for longer than gorilla's own pong handler waits
		_ = c.WriteControl(websocket.PingMessage, []byte(string(ping)), time.Now().Add(forwardtest.Patience))
		time.Sleep(250 * time.Millisecond)
	}
	for pongs.Len() < len(pings) {
		if _, _, err := c.ReadMessage(); err != nil {
			t.Fatalf("after the pongs %q: %v", &pongs, err)
		}
	}
	if pongs.String() != pings {
		t.Errorf("pongs %q, want %q", &pongs, pings)
	}
}

// An engine that does not read fails, and the client gets a close frame.
func TestEngineThatStalls(t *testing.T) {
	stuck := make(chan struct{})
	engine, _ := wsEngine(t, func(*websocket.Conn) error {
		<-stuck
		return errors.New("over")
	})
	defer close(stuck)
	address, ends, _ := sessionServer(t, engine, realtime.SessionLimits{WriteStall: 300 * time.Millisecond})
	c := dialWS(t, address)
	go func() {
		for c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<16)) == nil {
		}
	}()
	wantClose(t, c, 1011, "the inference engine failed")
	end := forwardtest.Receive(t, "the end", ends)
	if end.Kind != relay.OutcomeTimeout || end.Reason != "stalled" || !end.EngineFault {
		t.Errorf("ended with %+v", end)
	}
	if end.BytesIn > 16<<20 {
		t.Errorf("%d bytes were taken from the client for an engine that takes nothing", end.BytesIn)
	}
}
