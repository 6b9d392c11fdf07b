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

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"

	"github.com/gorilla/websocket"
)

const (
	// maxOverhead is how much of what a peer sends between two pings may be no payload, beyond what payload earns: else
	// a message in a million fragments would cost what a million messages do.
	maxOverhead = 64 << 10
	// messageCredit is what each message earns: its own frame, and control frames beside it.
	messageCredit = 64
	// frameBuffer is what is read ahead of a WebSocket, for heads of frames and small messages.
	frameBuffer = 2 << 10
)

var errOverhead = errors.New("too many fragments or control frames")

// frameConn is the connection below a WebSocket, as gorilla's package sees it. It moves its own deadlines with every piece,
// so that only silence and standstill end it, and it keeps account of what is no payload.
type frameConn struct {
	*netconn.Conn
	stall         time.Duration
	writeDeadline time.Time    // of what is written now: for control frames; guarded by gorilla's lock for writing
	overhead      atomic.Int64 // bytes
}

// Read reads unless the peer has sent too much that is no payload.
func (w *frameConn) Read(p []byte) (int, error) {
	if w.overhead.Load() > maxOverhead {
		return 0, errOverhead
	}
	n, err := w.Conn.Read(p)
	w.overhead.Add(int64(n))
	return n, err
}

// credit makes up for so many bytes of what is no payload.
func (w *frameConn) credit(bytes int64) {
	if w.overhead.Add(-bytes) < 0 {
		w.overhead.Store(0) // nothing is saved up
	}
}

func (w *frameConn) Write(p []byte) (int, error) { return w.WriteWithin(p, w.stall, w.writeDeadline) }

// SetWriteDeadline is called before each write.
func (w *frameConn) SetWriteDeadline(t time.Time) error {
	w.writeDeadline = t
	return nil
}

// SetDeadline is called around handshakes.
func (w *frameConn) SetDeadline(time.Time) error { return nil }

// wsEnd is one end of a session.
type wsEnd struct {
	side    side
	ws      *websocket.Conn
	conn    *frameConn
	message io.WriteCloser // that it is sent; for the pump that sends it
}

// newWSEnd sets up what a [Session] needs of a WebSocket. Closes are answered by that, not by the WebSocket itself;
// pings are answered on the spot.
func newWSEnd(s side, ws *websocket.Conn, w *frameConn, maxMessage int64) *wsEnd {
	p := &wsEnd{side: s, ws: ws, conn: w}
	ws.SetReadLimit(maxMessage)
	ws.SetCloseHandler(func(int, string) error { return nil })
	ws.SetPingHandler(p.pong)
	return p
}

// start begins to send a message, and finish ends it.
func (p *wsEnd) start(kind int) (err error) {
	p.message, err = p.ws.NextWriter(kind)
	return err
}

func (p *wsEnd) finish() error { return p.message.Close() }

// pongError is a ping that could not be answered: who sent it takes nothing.
type pongError struct{ error }

func (e *pongError) Unwrap() error { return e.error }

// pong answers a ping. It has as long as any other write: a peer that reads slowly is not lost by asking whether we are
// there.
func (p *wsEnd) pong(data string) error {
	err := p.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(p.conn.stall))
	if err == nil || errors.Is(err, websocket.ErrCloseSent) {
		return nil
	}
	return &pongError{err}
}

// readFailure is the failure of reading from the peer.
func (p *wsEnd) readFailure(err error) failure {
	var pong *pongError
	return failure{side: p.side, writing: errors.As(err, &pong), err: err}
}

// close sends a close frame, once.
func (p *wsEnd) close(code int, text string, within time.Duration) {
	_ = p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(within))
}

// acceptClient answers the client's handshake. frames is memory for what is sent.
func (s *Session) acceptClient(w *frameConn, frames *sync.Pool) (*websocket.Conn, error) {
	up := websocket.Upgrader{
		ReadBufferSize: frameBuffer, WriteBufferSize: pieceSize, WriteBufferPool: frames,
		CheckOrigin: func(*http.Request) bool { return true }, // that is the entry's business
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
		return nil, fmt.Errorf("cannot answer the handshake: %w", err)
	}
	return ws, nil
}

// hijacker lets gorilla's upgrader have a connection that was taken over already.
type hijacker struct{ wire *frameConn }

func (h hijacker) Header() http.Header         { return http.Header{} }
func (h hijacker) WriteHeader(int)             {}
func (h hijacker) Write(p []byte) (int, error) { return len(p), nil } // plain answers, which are not sent
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.wire, bufio.NewReadWriter(bufio.NewReaderSize(h.wire, 16), bufio.NewWriterSize(h.wire, 16)), nil
}

// dialEngine makes a client's WebSocket of a connection whose handshake was made already, by our own transport. Only a
// dialer can make one, so it is given a connection on which the handshake is played back to it.
func dialEngine(w *frameConn, frames *sync.Pool) (*websocket.Conn, error) {
	d := websocket.Dialer{
		ReadBufferSize: frameBuffer, WriteBufferSize: pieceSize, WriteBufferPool: frames,
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return &playback{frameConn: w}, nil },
	}
	ws, _, err := d.Dial("ws://engine/", nil)
	if err != nil {
		return nil, fmt.Errorf("cannot begin to relay a WebSocket: %w", err)
	}
	return ws, nil
}

// playback answers a handshake itself, and is the connection below from then on.
type playback struct {
	*frameConn
	asked  bool
	answer []byte // what is left of it
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
