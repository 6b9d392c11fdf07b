package realtime

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
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
)

const (
	// maxOverhead is how many bytes besides payload an end may send between two pings, beyond the credit for payload. Without it, a
	// message in a million fragments would cost as much as a million messages.
	maxOverhead = 64 << 10
	// messageCredit is the credit for each message, in bytes: for its frame, and for control frames.
	messageCredit = 64
	// frameBuffer is the size of the read-ahead buffer for heads of frames and small messages, in bytes.
	frameBuffer = 2 << 10
)

var errOverhead = errors.New("too many fragments or control frames")

// frameConn is the connection below a WebSocket, as gorilla's package sees it. Its deadlines roll forward, so that only silence and
// stalled writes end it, and it counts the bytes that are not payload.
type frameConn struct {
	*netconn.Conn
	stall         time.Duration
	writeDeadline time.Time    // of a control frame that is being written; guarded by gorilla's lock for writing
	overhead      atomic.Int64 // in bytes
}

// Read fails if the other side has sent too many bytes besides payload.
func (w *frameConn) Read(p []byte) (int, error) {
	if w.overhead.Load() > maxOverhead {
		return 0, errOverhead
	}
	n, err := w.Conn.Read(p)
	w.overhead.Add(int64(n))
	return n, err
}

// credit allows for further bytes besides payload.
func (w *frameConn) credit(bytes int64) {
	if w.overhead.Add(-bytes) < 0 {
		w.overhead.Store(0) // credit cannot be saved
	}
}

func (w *frameConn) Write(p []byte) (int, error) { return w.WriteWithin(p, w.stall, w.writeDeadline) }

// SetWriteDeadline is called by gorilla's package before each write: zero, except for a control frame.
func (w *frameConn) SetWriteDeadline(t time.Time) error {
	w.writeDeadline = t
	return nil
}

// SetDeadline does nothing. gorilla's package calls it around handshakes.
func (w *frameConn) SetDeadline(time.Time) error { return nil }

// wsEnd is one end of a session.
type wsEnd struct {
	side    side
	ws      *websocket.Conn
	conn    *frameConn
	message io.WriteCloser // being sent to it; for the copier that sends it
}

// newWSEnd returns an end of a session. Close frames are answered by the session and not by gorilla's package, pings at once.
func newWSEnd(s side, ws *websocket.Conn, w *frameConn, maxMessage int64) *wsEnd {
	p := &wsEnd{side: s, ws: ws, conn: w}
	ws.SetReadLimit(maxMessage)
	ws.SetCloseHandler(func(int, string) error { return nil })
	ws.SetPingHandler(p.pong)
	return p
}

// start begins a message to the end, and finish ends it.
func (e *wsEnd) start(kind int) (err error) {
	e.message, err = e.ws.NextWriter(kind)
	return err
}

func (e *wsEnd) finish() error { return e.message.Close() }

// pongError is the failure of a pong: the end that has sent the ping does not read.
type pongError struct{ error }

func (e *pongError) Unwrap() error { return e.error }

// pong answers a ping. It may take as long as any other write, so that an end that reads slowly is not closed because of its own ping.
func (e *wsEnd) pong(data string) error {
	err := e.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(e.conn.stall))
	if err == nil || errors.Is(err, websocket.ErrCloseSent) {
		return nil
	}
	return &pongError{err}
}

// readFailure returns err as the failure of the end.
func (e *wsEnd) readFailure(err error) failure {
	var pong *pongError
	return failure{side: e.side, writing: errors.As(err, &pong), err: err}
}

// close sends a close frame.
func (e *wsEnd) close(code int, text string, within time.Duration) {
	_ = e.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(within))
}

// acceptClient accepts the client's handshake. frames is memory for writing.
func (s *Session) acceptClient(w *frameConn, frames *sync.Pool) (*websocket.Conn, error) {
	up := websocket.Upgrader{
		ReadBufferSize: frameBuffer, WriteBufferSize: pieceSize, WriteBufferPool: frames,
		CheckOrigin: func(*http.Request) bool { return true }, // the entry has checked the origin
	}
	if s.Protocol != "" {
		up.Subprotocols = []string{s.Protocol}
	}
	answer, h := http.Header{}, s.Handshake
	for _, f := range s.Fields {
		answer.Set(f.Name, f.Value)
	}
	ws, err := up.Upgrade(hijacker{w}, &http.Request{Method: http.MethodGet, Header: http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {transport.HandshakeVersion},
		"Sec-Websocket-Key": {h.Key}, "Sec-Websocket-Protocol": {strings.Join(h.Protocols, ", ")},
	}}, answer)
	if err != nil {
		return nil, fmt.Errorf("cannot accept the handshake: %w", err)
	}
	return ws, nil
}

// hijacker gives gorilla's upgrader a connection that was hijacked before.
type hijacker struct{ wire *frameConn }

func (h hijacker) Header() http.Header         { return http.Header{} }
func (h hijacker) WriteHeader(int)             {}
func (h hijacker) Write(p []byte) (int, error) { return len(p), nil } // HTTP errors, which are not sent
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.wire, bufio.NewReadWriter(bufio.NewReaderSize(h.wire, 16), bufio.NewWriterSize(h.wire, 16)), nil
}

// dialEngine returns a client's WebSocket over a connection whose handshake the transport has made. gorilla's package makes one only by
// dialing, so its dialer gets a connection that plays the handshake back.
func dialEngine(w *frameConn, frames *sync.Pool) (*websocket.Conn, error) {
	d := websocket.Dialer{
		ReadBufferSize: frameBuffer, WriteBufferSize: pieceSize, WriteBufferPool: frames,
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return &playback{frameConn: w}, nil },
	}
	ws, _, err := d.Dial("ws://engine/", nil)
	if err != nil {
		return nil, fmt.Errorf("cannot take over the WebSocket: %w", err)
	}
	return ws, nil
}

// playback answers a handshake itself, and then is the connection below.
type playback struct {
	*frameConn
	asked  bool
	answer []byte // unread bytes of the response
}

func (p *playback) Write(b []byte) (int, error) {
	if p.asked {
		return p.frameConn.Write(b)
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return 0, err
	}
	p.asked = true
	h := transport.Handshake{Key: r.Header.Get("Sec-WebSocket-Key")}
	p.answer = []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + h.AcceptKey() + "\r\n\r\n")
	return len(b), nil
}

func (p *playback) Read(b []byte) (int, error) {
	if len(p.answer) > 0 {
		n := copy(b, p.answer)
		p.answer = p.answer[n:]
		return n, nil
	}
	return p.frameConn.Read(b)
}
