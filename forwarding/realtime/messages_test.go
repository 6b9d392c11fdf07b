//go:build pending

package realtime

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"colonnade/forwarding/relay"
	"colonnade/internal/forwardtest"

	"github.com/gorilla/websocket"
)

// However a text is cut into pieces, it is found out what is no UTF-8, and not a byte later than it can be known.
func TestTextCheck(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	bits := []string{
		"a", "\u00e9", "\u20ac", "\U0001f600", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xf4\x90", "\xff", "\xc0\xaf",
	}
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(8) {
			text.WriteString(bits[min(random.IntN(2*len(bits)), len(bits)-1)/(1+random.IntN(3))])
		}
		s := text.String()
		var check textCheck
		good := true
		for rest := s; good && len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			good = check.valid([]byte(rest[:n]))
			if read := s[:len(s)-len(rest)+n]; good == hopeless(read) {
				t.Fatalf("after %q of %q: good is %v", read, s, good)
			}
			rest = rest[n:]
		}
		if got, want := good && check.whole(), utf8.ValidString(s); got != want {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
	}
}

// hopeless says, in another way than textCheck, that nothing that follows can make s good.
func hopeless(s string) bool {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			return utf8.FullRuneInString(s)
		}
		s = s[n:]
	}
	return false
}

// Who sends text that is no UTF-8 is told so, and the other side is not handed the message.
func TestTextThatIsNone(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		got := make(chan error, 1)
		engine, seen := wsEngine(t, func(c *websocket.Conn) error {
			_, _, err := c.ReadMessage()
			got <- err
			return err
		})
		address, ends, _ := sessionServer(t, engine, SessionLimits{})
		c := dialWS(t, address)
		if err := c.WriteMessage(websocket.TextMessage, []byte("\xed\xa0\x80")); err != nil {
			t.Fatal(err)
		}
		wantClose(t, c, 1007, "not UTF-8")
		if err := forwardtest.Next(t, "what the engine got", got); !websocket.IsCloseError(err, 1001) {
			t.Errorf("the engine got %v", err)
		}
		if end := forwardtest.Next(t, "the end", ends); end.Kind != EndRefused || end.Reason != "not_utf8" || end.MessagesIn != 0 {
			t.Errorf("ended with %+v", end)
		}
		forwardtest.Next(t, "the engine's end", seen)
	})
	t.Run("engine", func(t *testing.T) {
		engine, seen := wsEngine(t, func(c *websocket.Conn) error {
			_ = c.WriteMessage(websocket.TextMessage, []byte("caf\xe9"))
			return listenOnly(c)
		})
		address, ends, _ := sessionServer(t, engine, SessionLimits{})
		wantClose(t, dialWS(t, address), 1011, "the inference engine failed")
		if end := forwardtest.Next(t, "the end", ends); end.Kind != relay.EndFailed || end.Reason != "not_utf8" || !end.Engine {
			t.Errorf("ended with %+v", end)
		}
		if err := forwardtest.Next(t, "the engine's end", seen); !websocket.IsCloseError(err, 1007) {
			t.Errorf("the engine saw %v", err)
		}
	})
}

func TestPace(t *testing.T) {
	var p pace
	now := time.Now()
	var waited time.Duration
	send := func(n int) {
		for range n {
			wait := p.take(now)
			now, waited = now.Add(wait), waited+wait
		}
	}
	send(messageBurst)
	if waited != 0 {
		t.Errorf("a burst was held up for %v", waited)
	}
	send(5 * messageRate)
	if waited < 5*time.Second-paceStep || waited > 5*time.Second {
		t.Errorf("five seconds' worth more were held up for %v", waited)
	}
	waited = 0
	for range 10_000 {
		now = now.Add(time.Second / messageRate)
		send(1)
	}
	if waited > paceStep {
		t.Errorf("who keeps to the rate was held up for %v", waited)
	}
	now = now.Add(time.Hour)
	waited = 0
	send(messageBurst)
	if waited != 0 {
		t.Errorf("a burst after an hour was held up for %v", waited)
	}
}

// A client that sends too many messages is read slowly, and loses none.
func TestTooManyMessages(t *testing.T) {
	t.Parallel()
	const over = 300 * time.Millisecond
	engine, _ := wsEngine(t, listenOnly)
	address, ends, _ := sessionServer(t, engine, SessionLimits{})
	c := dialWS(t, address)
	began := time.Now()
	n := messageBurst + int(messageRate*over/time.Second)
	go func() {
		_, _ = io.WriteString(c.NetConn(), strings.Repeat("\x82\x80\x00\x00\x00\x00", n)+"\x88\x82\x00\x00\x00\x00\x03\xe8")
	}()
	wantClose(t, c, 1000, "")
	if end := forwardtest.Next(t, "the end", ends); end.Kind != relay.EndComplete || end.MessagesIn != int64(n) {
		t.Errorf("ended with %+v", end)
	}
	if took := time.Since(began); took < over-2*paceStep {
		t.Errorf("%d messages took %v", n, took)
	}
}

// Messages in between do not make a flood of control frames any cheaper.
func TestControlFramesBetweenMessages(t *testing.T) {
	engine, _ := wsEngine(t, listenOnly)
	address, ends, _ := sessionServer(t, engine, SessionLimits{})
	c := dialWS(t, address)
	go flood(c.NetConn(), "", strings.Repeat("\x89\x80\x00\x00\x00\x00", 100)+"\x82\x80\x00\x00\x00\x00")
	go func() { _, _ = io.Copy(io.Discard, c.NetConn()) }()
	if end := forwardtest.Next(t, "the end", ends); end.Kind != EndRefused || end.Reason != "too_many_fragments" {
		t.Errorf("ended with %+v", end)
	}
}

// A client that pings and reads slowly is a slow reader like any other: its pings are answered when it takes the answers.
func TestPingsOfASlowReader(t *testing.T) {
	t.Parallel()
	engine, _ := wsEngine(t, func(c *websocket.Conn) error {
		for {
			if err := c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	})
	address, _, _ := sessionServer(t, engine, SessionLimits{})
	c := dialWS(t, address)
	var pongs strings.Builder
	c.SetPongHandler(func(payload string) error {
		pongs.WriteString(payload)
		return nil
	})
	time.Sleep(100 * time.Millisecond) // by then nothing more can be sent
	const pings = "abcdef"
	for _, ping := range pings {
		_ = c.WriteControl(websocket.PingMessage, []byte(string(ping)), time.Now().Add(forwardtest.Patience))
	}
	time.Sleep(1500 * time.Millisecond) // longer than gorilla's package tries by itself
	for pongs.Len() < len(pings) {
		if _, _, err := c.ReadMessage(); err != nil {
			t.Fatalf("after the pongs %q: %v", &pongs, err)
		}
	}
	if pongs.String() != pings {
		t.Errorf("pongs %q, want %q", &pongs, pings)
	}
}

// An engine that takes nothing fails, and the client hears of it.
func TestEngineThatStalls(t *testing.T) {
	stuck := make(chan struct{})
	engine, _ := wsEngine(t, func(*websocket.Conn) error {
		<-stuck
		return errors.New("over")
	})
	defer close(stuck)
	address, ends, _ := sessionServer(t, engine, SessionLimits{Stall: 300 * time.Millisecond})
	c := dialWS(t, address)
	go func() {
		for c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<16)) == nil {
		}
	}()
	wantClose(t, c, 1011, "the inference engine failed")
	end := forwardtest.Next(t, "the end", ends)
	if end.Kind != relay.EndTimeout || end.Reason != "stalled" || !end.Engine {
		t.Errorf("ended with %+v", end)
	}
	if end.BytesIn > 16<<20 {
		t.Errorf("%d bytes were taken from the client for an engine that takes nothing", end.BytesIn)
	}
}
