package fleettest

import (
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

// Session is a client's end of a realtime session.
type Session struct {
	*websocket.Conn
	T      testing.TB
	Header http.Header // of the handshake's response
}

// RealtimeURL is where sessions with a model begin.
func (f *Fleet) RealtimeURL(model string) string {
	return "ws" + strings.TrimPrefix(f.URL(), "http") + "/realtime?model=" + model
}

func (f *Fleet) dialRealtime(model string, headers []string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	dialer := websocket.Dialer{HandshakeTimeout: testkit.Timeout}
	return dialer.Dial(f.RealtimeURL(model), h)
}

// DialRealtime opens a session, until the end of the test. headers are names and values in turn.
func (f *Fleet) DialRealtime(model string, headers ...string) Session {
	f.T.Helper()
	c, answer, err := f.dialRealtime(model, headers)
	if err != nil {
		f.T.Fatalf("cannot open a session: %v: %v", err, answer)
	}
	f.T.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(testkit.Timeout))
	return Session{Conn: c, T: f.T, Header: answer.Header}
}

// ExpectRefused expects that a session is refused by a plain HTTP response with a status.
func (f *Fleet) ExpectRefused(model string, status int, headers ...string) wiretest.Response {
	f.T.Helper()
	c, refused, err := f.dialRealtime(model, headers)
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

// Hear reads events until one has the wanted type, and returns it.
func (s Session) Hear(want string) map[string]any {
	s.T.Helper()
	for {
		_, data, err := s.ReadMessage()
		if err != nil {
			s.T.Fatalf("%v, waiting for %s", err, want)
		}
		var event map[string]any
		if err := json.Unmarshal(data, &event); err != nil {
			s.T.Fatalf("%v: %q", err, data)
		}
		if event["type"] == want {
			return event
		}
	}
}

// Say sends an event.
func (s Session) Say(event string) {
	s.T.Helper()
	if err := s.WriteMessage(websocket.TextMessage, []byte(event)); err != nil {
		s.T.Fatal(err)
	}
}

// HangUp sends a close frame.
func (s Session) HangUp(code int, text string) {
	s.T.Helper()
	if err := s.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text)); err != nil {
		s.T.Fatal(err)
	}
}

// ExpectClose reads to the end of the session, which must be a close frame with a code, and with text in its reason.
func (s Session) ExpectClose(code int, text string) {
	s.T.Helper()
	for {
		_, _, err := s.ReadMessage()
		var frame *websocket.CloseError
		switch {
		case err == nil:
		case errors.As(err, &frame) && frame.Code == code && strings.Contains(frame.Text, text):
			return
		default:
			s.T.Errorf("the session ended with %v, want close code %d %q", err, code, text)
			return
		}
	}
}

// Handshake opens a session on a connection whose frames the test writes and reads itself.
func (f *Fleet) Handshake(model string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	return wiretest.Handshake(f.T, f.Entry.Address, "/v1/realtime?model="+model, lines...)
}

// SendHandshake sends a handshake, and reads nothing.
func (f *Fleet) SendHandshake(model string, lines ...string) *wiretest.Conn {
	f.T.Helper()
	return wiretest.SendHandshake(f.T, f.Entry.Address, "/v1/realtime?model="+model, lines...)
}
