package fleettest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// Session is a client's session.
type Session struct {
	*websocket.Conn
	T      testing.TB
	Header http.Header // of the answer to the handshake
}

// RealtimeURL is where sessions with a model begin.
func (f *Fleet) RealtimeURL(model string) string {
	return "ws" + strings.TrimPrefix(f.URL(), "http") + "/realtime?model=" + model
}

// DialRealtime opens a session, with headers (name, value, …).
func (f *Fleet) DialRealtime(model string, headers ...string) Session {
	f.T.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	d := websocket.Dialer{HandshakeTimeout: testkit.Patience}
	c, answer, err := d.Dial(f.RealtimeURL(model), h)
	if err != nil {
		f.T.Fatalf("cannot open a session: %v: %v", err, answer)
	}
	f.T.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
	return Session{Conn: c, T: f.T, Header: answer.Header}
}

// ExpectRefused expects that a session is refused by a plain HTTP error.
func (f *Fleet) ExpectRefused(model string, status int, headers ...string) wiretest.Response {
	f.T.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	d := websocket.Dialer{HandshakeTimeout: testkit.Patience}
	c, refused, err := d.Dial(f.RealtimeURL(model), h)
	if err == nil {
		c.Close()
		f.T.Fatalf("a session was opened, want status %d", status)
	}
	if refused == nil || refused.StatusCode != status {
		f.T.Fatalf("refused with %v, %v; want status %d", err, refused, status)
	}
	body, _ := io.ReadAll(refused.Body)
	return wiretest.Response{Status: refused.StatusCode, Header: refused.Header, Body: string(body)}
}

// Hear reads events until one is of a type, and returns it.
func (r Session) Hear(want string) map[string]any {
	r.T.Helper()
	for {
		_, data, err := r.ReadMessage()
		if err != nil {
			r.T.Fatalf("%v, waiting for %s", err, want)
		}
		var event map[string]any
		if err := json.Unmarshal(data, &event); err != nil {
			r.T.Fatalf("%v: %q", err, data)
		}
		if event["type"] == want {
			return event
		}
	}
}

func (r Session) Say(event string) {
	r.T.Helper()
	if err := r.WriteMessage(websocket.TextMessage, []byte(event)); err != nil {
		r.T.Fatal(err)
	}
}

func (r Session) HangUp(code int, text string) {
	r.T.Helper()
	if err := r.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text)); err != nil {
		r.T.Fatal(err)
	}
}

// ExpectClose reads to the session's end and expects a close frame.
func (r Session) ExpectClose(code int, text string) {
	r.T.Helper()
	for {
		_, _, err := r.ReadMessage()
		var frame *websocket.CloseError
		switch {
		case err == nil:
		case errors.As(err, &frame) && frame.Code == code && strings.Contains(frame.Text, text):
			return
		default:
			r.T.Errorf("the session ended with %v, want close code %d %q", err, code, text)
			return
		}
	}
}

// Handshake opens a session by hand.
func (f *Fleet) Handshake(model string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	w := f.SendHandshake(model, lines...)
	var a wiretest.RawResponse
	if err := w.ReadHead(&a); err != nil || a.Status != http.StatusSwitchingProtocols {
		f.T.Fatalf("the handshake was answered with %d, %v", a.Status, err)
	}
	if offered := a.Header.Get("Sec-WebSocket-Extensions"); offered != "" {
		f.T.Errorf("the extension %q was agreed on", offered)
	}
	return w
}

// SendHandshake sends a handshake.
func (f *Fleet) SendHandshake(model string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	w := wiretest.Dial(f.T, f.Entry.Address)
	var key [16]byte
	_, _ = rand.Read(key[:])
	w.Send("GET /v1/realtime?model="+model+" HTTP/1.1", append([]string{"Host: fleet", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.StdEncoding.EncodeToString(key[:])}, lines...), "")
	return w
}
