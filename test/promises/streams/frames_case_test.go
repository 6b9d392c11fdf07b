package streams_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// heard is what a session has said, put together from its frames.
type heard struct {
	messages []wiretest.Frame // whole ones
	pongs    []string
	close    string // its payload
	closed   bool
	kind     byte // of the message under way; 0 = none is
	part     strings.Builder
}

// hear takes one frame.
func (h *heard) hear(f wiretest.Frame) error {
	switch f.Head &^ wiretest.FinBit {
	case wiretest.OpPong:
		h.pongs = append(h.pongs, f.Payload)
	case wiretest.OpPing: // of ours; these sessions do not last long enough to have to answer
	case wiretest.OpClose:
		h.close, h.closed = f.Payload, true
	case wiretest.OpText, wiretest.OpBinary:
		if h.kind != 0 {
			return errors.New("a message began in another")
		}
		h.kind = f.Head | wiretest.FinBit
		fallthrough
	case wiretest.OpContinuation:
		if h.kind == 0 {
			return errors.New("a message goes on that never began")
		}
		h.part.WriteString(f.Payload)
		if f.Head&wiretest.FinBit != 0 {
			h.messages = append(h.messages, wiretest.RawFrame(h.kind, h.part.String()))
			h.kind = 0
			h.part.Reset()
		}
	default:
		return fmt.Errorf("a frame with head %#x", f.Head)
	}
	return nil
}

// startEcho runs a fleet before an engine that answers each message with itself, whatever is in it.
func startEcho(t *testing.T, slots int) *fleettest.Fleet {
	t.Helper()
	var up websocket.Upgrader
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			return // a health check
		}
		if c, err := up.Upgrade(w, r, nil); err == nil {
			echoAll(c)
		}
	}))
	t.Cleanup(engine.Close)
	return fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, fmt.Sprintf(
		"key: models/echo\ntype: realtime\n---\nkey: endpoints/ams/echo\nurl: %s\npool: echo\nconcurrency: %d\n", engine.URL, slots))
}

func echoAll(c *websocket.Conn) {
	defer c.Close()
	for {
		kind, message, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// frameCase is what a client sends, and what must come back.
type frameCase struct {
	send  []wiretest.Frame
	raw   []byte           // comes after that
	chop  int              // bytes that are written at once; 0 = all
	echo  []wiretest.Frame // messages that come back; what is on its way when a session ends may be lost
	pongs []string         // likewise
	code  int              // of the close frame that ends it; 0 = none: the client says goodbye once all has come back
	none  bool             // the close frame has no code
}

// exchange runs one case.
func exchange(f *fleettest.Fleet, name string, c frameCase) {
	f.T.Helper()
	w := f.Handshake("echo", "Sec-WebSocket-Extensions: permessage-deflate")
	defer w.Close()
	var all []byte
	for _, fr := range c.send {
		all = append(all, fr.Masked()...)
	}
	all = append(all, c.raw...)
	if c.chop == 0 {
		c.chop = len(all)
	}
	go func() {
		for piece := range slices.Chunk(all, c.chop) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}()
	var h heard
	ends := c.code != 0 || c.none // by what is sent
	goodbye := ends
	for !h.closed {
		if !goodbye && len(h.messages) >= len(c.echo) && len(h.pongs) >= len(c.pongs) {
			goodbye, c.code = true, 1000
			_, _ = w.Write(wiretest.CloseFrame(1000, "").Masked())
		}
		fr, err := wiretest.ReadFrame(w.R)
		if err == nil {
			err = h.hear(fr)
		}
		if err != nil {
			f.T.Fatalf("%s: %v, after %d messages and %d pongs", name, err, len(h.messages), len(h.pongs))
		}
	}
	if ends {
		c.echo, c.pongs = c.echo[:min(len(h.messages), len(c.echo))], c.pongs[:min(len(h.pongs), len(c.pongs))]
	}
	compare(f, name, c, &h)
	if rest, err := io.ReadAll(w.R); len(rest) > 0 || err != nil && !isReset(err) {
		f.T.Errorf("%s: after the close frame came %d bytes, %v", name, len(rest), err)
	}
}

// isReset: who sends on after a close frame may meet one.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

func compare(f *fleettest.Fleet, name string, c frameCase, h *heard) {
	f.T.Helper()
	code := 0
	if len(h.close) >= 2 {
		code = int(binary.BigEndian.Uint16([]byte(h.close)))
	}
	if code != c.code {
		f.T.Errorf("%s: closed with %d %q, want %d", name, code, h.close, c.code)
	}
	for _, sent := range c.send { // a code comes back with its reason
		if sent.Head == wiretest.FinBit|wiretest.OpClose && strings.HasPrefix(sent.Payload, wiretest.CloseFrame(c.code, "").Payload) && h.close != sent.Payload {
			f.T.Errorf("%s: the goodbye %q came back as %q", name, sent.Payload, h.close)
		}
	}
	if !slices.Equal(h.messages, c.echo) {
		f.T.Errorf("%s: came back %s, want %s", name, sketch(h.messages), sketch(c.echo))
	}
	if !slices.Equal(h.pongs, c.pongs) {
		f.T.Errorf("%s: pongs %q, want %q", name, h.pongs, c.pongs)
	}
}

// sketch shows frames, cut to what can be read.
func sketch(frames []wiretest.Frame) string {
	var b strings.Builder
	for _, fr := range frames {
		fmt.Fprintf(&b, "[%#x %d %.40q]", fr.Head, len(fr.Payload), fr.Payload)
	}
	return b.String()
}
