package forwarding

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// maxOverhead is how much of what a peer sends may be no payload, in one message and between two pings: else a message
// in a million fragments would cost what a million messages do.
const maxOverhead = 64 << 10

var errOverhead = errors.New("too many fragments or control frames")

// wire is the connection below a WebSocket, as gorilla's package sees it. It moves its own deadlines with every piece, so
// that only silence and standstill end it, and it keeps account of what is no payload.
type wire struct {
	*conn
	reader   io.Reader // of conn, with what was read ahead
	stall    time.Duration
	limit    time.Time    // of what is written now: for control frames; guarded by gorilla's lock for writing
	overhead atomic.Int64 // bytes
}

// Read reads unless the peer has sent too much that is no payload.
func (w *wire) Read(p []byte) (int, error) {
	if w.overhead.Load() > maxOverhead {
		return 0, errOverhead
	}
	n, err := w.reader.Read(p)
	w.overhead.Add(int64(n))
	return n, err
}

func (w *wire) Write(p []byte) (int, error) { return w.push(p, w.stall, w.limit) }

// SetWriteDeadline is called before each write.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.limit = t
	return nil
}

// SetDeadline is called around handshakes.
func (w *wire) SetDeadline(time.Time) error { return nil }

// peer is one end of a session.
type peer struct {
	side side
	ws   *websocket.Conn
	wire *wire
}

// newPeer sets up what a [Session] needs of a WebSocket. Closes are answered by that, not by the WebSocket itself;
// pings are answered on the spot.
func newPeer(s side, ws *websocket.Conn, w *wire, maxMessage int64) *peer {
	ws.SetReadLimit(maxMessage)
	ws.SetCloseHandler(func(int, string) error { return nil })
	return &peer{side: s, ws: ws, wire: w}
}

// keepAlive pings the peer until done is closed. That nothing comes back shows where it is read.
func (p *peer) keepAlive(done <-chan struct{}, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.wire.overhead.Store(0)
			_ = p.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(p.wire.stall))
		case <-done:
			return
		}
	}
}

// close sends a close frame, once.
func (p *peer) close(code int, text string, within time.Duration) {
	_ = p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(within))
}

// acceptPeer answers the client's handshake.
func acceptPeer(w *wire, h *Handshake, protocol string, fields []Field) (*websocket.Conn, error) {
	up := websocket.Upgrader{
		ReadBufferSize: relayPiece, WriteBufferSize: relayPiece,
		CheckOrigin: func(*http.Request) bool { return true }, // that is the entry's business
	}
	if protocol != "" {
		up.Subprotocols = []string{protocol}
	}
	answer := http.Header{}
	for _, f := range fields {
		answer.Set(f.Name, f.Value)
	}
	ws, err := up.Upgrade(hijacker{w}, &http.Request{Method: http.MethodGet, Header: http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {handshakeVersion},
		"Sec-Websocket-Key": {h.Key}, "Sec-Websocket-Protocol": {strings.Join(h.Protocols, ", ")},
	}}, answer)
	if err != nil {
		return nil, fmt.Errorf("cannot answer the handshake: %w", err)
	}
	return ws, nil
}

// hijacker lets gorilla's upgrader have a connection that was taken over already.
type hijacker struct{ wire *wire }

func (h hijacker) Header() http.Header         { return http.Header{} }
func (h hijacker) WriteHeader(int)             {}
func (h hijacker) Write(p []byte) (int, error) { return len(p), nil } // plain answers, which are not sent
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.wire, bufio.NewReadWriter(bufio.NewReaderSize(h.wire, 16), bufio.NewWriterSize(h.wire, 16)), nil
}

// dialPeer makes a client's WebSocket of a connection whose handshake was made already, by our own transport. Only a
// dialer can make one, so it is given a connection on which the handshake is played back to it.
func dialPeer(w *wire) (*websocket.Conn, error) {
	d := websocket.Dialer{
		ReadBufferSize: relayPiece, WriteBufferSize: relayPiece,
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return &playback{wire: w}, nil },
	}
	ws, _, err := d.Dial("ws://engine/", nil)
	if err != nil {
		return nil, fmt.Errorf("cannot begin to relay a WebSocket: %w", err)
	}
	return ws, nil
}

// playback answers a handshake itself, and is the connection below from then on.
type playback struct {
	*wire
	asked  bool
	answer []byte // what is left of it
}

func (p *playback) Write(b []byte) (int, error) {
	if p.asked {
		return p.wire.Write(b)
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return 0, err
	}
	p.asked = true
	h := Handshake{Key: r.Header.Get("Sec-WebSocket-Key")}
	p.answer = []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + h.accept() + "\r\n\r\n")
	return len(b), nil
}

func (p *playback) Read(b []byte) (int, error) {
	if len(p.answer) > 0 {
		n := copy(b, p.answer)
		p.answer = p.answer[n:]
		return n, nil
	}
	return p.wire.Read(b)
}
