package onebox_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// realtime is a client's session.
type realtime struct {
	*websocket.Conn
	t      testing.TB
	header http.Header // of the answer to the handshake
}

// realtimeURL is where sessions with a model begin.
func (f *testFleet) realtimeURL(model string) string {
	return "ws" + strings.TrimPrefix(f.URL(), "http") + "/realtime?model=" + model
}

// dial opens a session, with headers (name, value, …).
func (f *testFleet) dial(model string, headers ...string) realtime {
	f.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	d := websocket.Dialer{HandshakeTimeout: patience}
	c, answer, err := d.Dial(f.realtimeURL(model), h)
	if err != nil {
		f.t.Fatalf("cannot open a session: %v: %v", err, answer)
	}
	f.t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return realtime{Conn: c, t: f.t, header: answer.Header}
}

// refuse expects that a session is refused by a plain HTTP error.
func (f *testFleet) refuse(model string, status int, headers ...string) answer {
	f.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	d := websocket.Dialer{HandshakeTimeout: patience}
	c, refused, err := d.Dial(f.realtimeURL(model), h)
	if err == nil {
		c.Close()
		f.t.Fatalf("a session was opened, want status %d", status)
	}
	if refused == nil || refused.StatusCode != status {
		f.t.Fatalf("refused with %v, %v; want status %d", err, refused, status)
	}
	body, _ := io.ReadAll(refused.Body)
	return answer{Status: refused.StatusCode, Header: refused.Header, Body: string(body)}
}

// hear reads events until one is of a type, and returns it.
func (r realtime) hear(want string) map[string]any {
	r.t.Helper()
	for {
		_, data, err := r.ReadMessage()
		if err != nil {
			r.t.Fatalf("%v, waiting for %s", err, want)
		}
		var event map[string]any
		if err := json.Unmarshal(data, &event); err != nil {
			r.t.Fatalf("%v: %q", err, data)
		}
		if event["type"] == want {
			return event
		}
	}
}

func (r realtime) say(event string) {
	r.t.Helper()
	if err := r.WriteMessage(websocket.TextMessage, []byte(event)); err != nil {
		r.t.Fatal(err)
	}
}

func (r realtime) hangUp(code int, text string) {
	r.t.Helper()
	if err := r.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text)); err != nil {
		r.t.Fatal(err)
	}
}

// ends reads to the session's end and expects a close frame.
func (r realtime) ends(code int, text string) {
	r.t.Helper()
	for {
		_, _, err := r.ReadMessage()
		var frame *websocket.CloseError
		switch {
		case err == nil:
		case errors.As(err, &frame) && frame.Code == code && strings.Contains(frame.Text, text):
			return
		default:
			r.t.Errorf("the session ended with %v, want close code %d %q", err, code, text)
			return
		}
	}
}

// lastEvents waits for the final events of a request, and returns those of the entry and of the last attempt in a colo.
func (f *testFleet) lastEvents(id string) (request, inference analytics.Event) {
	f.t.Helper()
	testkit.WaitFor(f.t, "the events of "+id, func() bool {
		request, inference = analytics.Event{}, analytics.Event{}
		for e, err := range journal.ReadDir(f.Entry.Events) {
			switch {
			case err != nil || e.RequestID != id || e.Phase != analytics.PhaseEnd:
			case e.Kind == analytics.KindRequest:
				request = e
			case e.Attempts >= inference.Attempts:
				inference = e
			}
		}
		return request.EventID != "" && inference.EventID != ""
	})
	return request, inference
}
