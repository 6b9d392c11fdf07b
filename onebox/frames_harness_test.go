package onebox_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
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

	"colonnade/onebox"
)

// What stands in the first byte of a frame.
const (
	opMore, opText, opBinary     = 0, 1, 2
	opClose, opPing, opPong      = 8, 9, 10
	finBit, rsv1, rsv2, rsv3     = 0x80, 0x40, 0x20, 0x10
	frameMask                    = "\x37\xfa\x21\x3d"
	payloadSixteen, payloadLarge = 126, 127
)

// frame is one frame, as it stands on the wire.
type frame struct {
	head    byte // final bit, reserved bits, opcode
	payload string
}

func text(s string) frame     { return frame{finBit | opText, s} }
func binaryOf(s string) frame { return frame{finBit | opBinary, s} }
func begin(s string) frame    { return frame{opText, s} }
func more(s string) frame     { return frame{opMore, s} }
func last(s string) frame     { return frame{finBit | opMore, s} }
func ping(s string) frame     { return frame{finBit | opPing, s} }
func pong(s string) frame     { return frame{finBit | opPong, s} }
func closing(code int, reason string) frame {
	return frame{finBit | opClose, string(binary.BigEndian.AppendUint16(nil, uint16(code))) + reason}
}

// masked is the frame as a client sends it.
func (f frame) masked() []byte {
	b := []byte{f.head}
	switch n := len(f.payload); {
	case n < payloadSixteen:
		b = append(b, 0x80|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|payloadSixteen), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|payloadLarge), uint64(n))
	}
	b = append(b, frameMask...)
	return append(b, mask([]byte(f.payload), frameMask)...)
}

// mask puts a mask on, or takes it off.
func mask(payload []byte, with string) []byte {
	subtle.XORBytes(payload, payload, bytes.Repeat([]byte(with), (len(payload)+3)/4))
	return payload
}

// appendPlain appends the frame as a server sends it.
func (f frame) appendPlain(b []byte) []byte {
	b = append(b, f.head)
	switch n := len(f.payload); {
	case n < payloadSixteen:
		b = append(b, byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, payloadSixteen), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, payloadLarge), uint64(n))
	}
	return append(b, f.payload...)
}

// readMasked reads a frame as a client sends it.
func readMasked(br *bufio.Reader) (frame, error) {
	f, key, err := readAnyFrame(br)
	if err == nil && key == "" {
		err = errors.New("a client's frame is not masked")
	}
	return f, err
}

// readFrame reads a frame as a server sends it.
func readFrame(br *bufio.Reader) (frame, error) {
	f, key, err := readAnyFrame(br)
	if err == nil && key != "" {
		err = errors.New("a server's frame is masked")
	}
	return f, err
}

func readAnyFrame(br *bufio.Reader) (f frame, key string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return f, "", err
	}
	length := 0 // bytes that the length takes
	switch head[1] & 0x7f {
	case payloadSixteen:
		length = 2
	case payloadLarge:
		length = 8
	}
	var rest [8 + len(frameMask)]byte
	size := length
	if head[1]&0x80 != 0 {
		size += len(frameMask)
	}
	if _, err := io.ReadFull(br, rest[:size]); err != nil {
		return f, "", err
	}
	n := uint64(head[1] & 0x7f)
	if length > 0 {
		n = 0
		for _, b := range rest[:length] {
			n = n<<8 | uint64(b)
		}
	}
	key = string(rest[length:size])
	payload := make([]byte, n)
	if _, err = io.ReadFull(br, payload); err == nil && key != "" {
		mask(payload, key)
	}
	return frame{head[0], string(payload)}, key, err
}

// acceptKey is the answer to a handshake's key.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// heard is what a session has said, put together from its frames.
type heard struct {
	messages []frame // whole ones
	pongs    []string
	close    string // its payload
	closed   bool
	kind     byte // of the message under way; 0 = none is
	part     strings.Builder
}

// hear takes one frame.
func (h *heard) hear(f frame) error {
	switch f.head &^ finBit {
	case opPong:
		h.pongs = append(h.pongs, f.payload)
	case opPing: // of ours; these sessions do not last long enough to have to answer
	case opClose:
		h.close, h.closed = f.payload, true
	case opText, opBinary:
		if h.kind != 0 {
			return errors.New("a message began in another")
		}
		h.kind = f.head | finBit
		fallthrough
	case opMore:
		if h.kind == 0 {
			return errors.New("a message goes on that never began")
		}
		h.part.WriteString(f.payload)
		if f.head&finBit != 0 {
			h.messages = append(h.messages, frame{h.kind, h.part.String()})
			h.kind = 0
			h.part.Reset()
		}
	default:
		return fmt.Errorf("a frame with head %#x", f.head)
	}
	return nil
}

// startEcho runs a fleet before an engine that answers each message with itself, whatever is in it.
func startEcho(t *testing.T, slots int) *testFleet {
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
	return startFleet(t, onebox.Config{Engine: quick(1), Colos: []string{"ams"}}, fmt.Sprintf(
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

// shake opens a session by hand.
func (f *testFleet) shake(model string, lines ...string) *wire {
	f.t.Helper()
	w := f.shakeOnly(model, lines...)
	var a wireAnswer
	if err := w.readHead(&a); err != nil || a.Status != http.StatusSwitchingProtocols {
		f.t.Fatalf("the handshake was answered with %d, %v", a.Status, err)
	}
	if offered := a.Header.Get("Sec-WebSocket-Extensions"); offered != "" {
		f.t.Errorf("the extension %q was agreed on", offered)
	}
	return w
}

// shakeOnly sends a handshake.
func (f *testFleet) shakeOnly(model string, lines ...string) *wire {
	f.t.Helper()
	w := dialWire(f.t, f.Entry.Address)
	var key [16]byte
	_, _ = rand.Read(key[:])
	w.send("GET /v1/realtime?model="+model+" HTTP/1.1", append([]string{"Host: fleet", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.StdEncoding.EncodeToString(key[:])}, lines...), "")
	return w
}

// frameCase is what a client sends, and what must come back.
type frameCase struct {
	send  []frame
	raw   []byte   // comes after that
	chop  int      // bytes that are written at once; 0 = all
	echo  []frame  // messages that come back; what is on its way when a session ends may be lost
	pongs []string // likewise
	code  int      // of the close frame that ends it; 0 = none: the client says goodbye once all has come back
	none  bool     // the close frame has no code
}

// exchange runs one case.
func (f *testFleet) exchange(name string, c frameCase) {
	f.t.Helper()
	w := f.shake("echo", "Sec-WebSocket-Extensions: permessage-deflate")
	defer w.Close()
	var all []byte
	for _, fr := range c.send {
		all = append(all, fr.masked()...)
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
			_, _ = w.Write(closing(1000, "").masked())
		}
		fr, err := readFrame(w.br)
		if err == nil {
			err = h.hear(fr)
		}
		if err != nil {
			f.t.Fatalf("%s: %v, after %d messages and %d pongs", name, err, len(h.messages), len(h.pongs))
		}
	}
	if ends {
		c.echo, c.pongs = c.echo[:min(len(h.messages), len(c.echo))], c.pongs[:min(len(h.pongs), len(c.pongs))]
	}
	f.compare(name, c, &h)
	if rest, err := io.ReadAll(w.br); len(rest) > 0 || err != nil && !isReset(err) {
		f.t.Errorf("%s: after the close frame came %d bytes, %v", name, len(rest), err)
	}
}

// isReset: who sends on after a close frame may meet one.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

func (f *testFleet) compare(name string, c frameCase, h *heard) {
	f.t.Helper()
	code := 0
	if len(h.close) >= 2 {
		code = int(binary.BigEndian.Uint16([]byte(h.close)))
	}
	if code != c.code {
		f.t.Errorf("%s: closed with %d %q, want %d", name, code, h.close, c.code)
	}
	for _, sent := range c.send { // a code comes back with its reason
		if sent.head == finBit|opClose && strings.HasPrefix(sent.payload, closing(c.code, "").payload) && h.close != sent.payload {
			f.t.Errorf("%s: the goodbye %q came back as %q", name, sent.payload, h.close)
		}
	}
	if !slices.Equal(h.messages, c.echo) {
		f.t.Errorf("%s: came back %s, want %s", name, sketch(h.messages), sketch(c.echo))
	}
	if !slices.Equal(h.pongs, c.pongs) {
		f.t.Errorf("%s: pongs %q, want %q", name, h.pongs, c.pongs)
	}
}

// sketch shows frames, cut to what can be read.
func sketch(frames []frame) string {
	var b strings.Builder
	for _, fr := range frames {
		fmt.Fprintf(&b, "[%#x %d %.40q]", fr.head, len(fr.payload), fr.payload)
	}
	return b.String()
}
