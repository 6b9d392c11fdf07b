package simengine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

const (
	maxMessage = 16 << 20
	// closeWait bounds the wait for the peer's close frame.
	closeWait = time.Second
)

// realtime is GET /v1/realtime?model=: a session over WebSocket.
func (e *Engine) realtime(w http.ResponseWriter, r *http.Request) {
	e.requests.Add(1)
	j := e.newJob(w, r)
	defer j.finish()
	model := r.URL.Query().Get("model")
	e.record.add(r, model, nil)
	switch {
	case model == "":
		writeError(w, badRequest("model", "model is missing in the query"))
		return
	case !e.serves(model):
		writeError(w, modelNotFound(model))
		return
	case !websocket.IsWebSocketUpgrade(r):
		writeError(w, badRequest("", "this path speaks WebSocket only"))
		return
	}
	j.fault = e.faults.take(model)
	if j.fault != FaultFullInStream && j.refuseByFault(&answer{}) {
		return
	}
	j.admit(func() error {
		switch j.fault {
		case FaultStallHead:
			return j.stall()
		case FaultMalformedHead, FaultBothLengths, FaultFlood1xx:
			return j.writeRaw(&answer{})
		}
		return j.serveSession(r, model)
	})
}

// serveSession runs a session for as long as the connection is open.
func (j *job) serveSession(r *http.Request, model string) error {
	up := websocket.Upgrader{
		Subprotocols: []string{"realtime"},
		CheckOrigin:  func(*http.Request) bool { return true }, // there are no secrets, and no browser's user
	}
	conn, err := up.Upgrade(j.w, r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	s := &session{j: j, conn: conn, model: model, events: make(chan clientEvent), ended: make(chan struct{})}
	conn.SetReadLimit(maxMessage)
	conn.SetCloseHandler(s.closed)
	// Closing the connection ends a write to a client that does not read, and a read from one that does not write.
	stop := context.AfterFunc(ctx, func() { j.abort(conn.NetConn()) })
	defer stop()
	go func() {
		defer close(s.ended)
		s.lost = s.listen(ctx)
		j.abort(conn.NetConn())
	}()
	err = s.run(ctx)
	j.abort(conn.NetConn()) // has no effect on a ticket that was left with another outcome
	cancel()
	<-s.ended
	return err
}

// session is one realtime session. Its reply is nil while none is generated.
type session struct {
	j      *job
	conn   *websocket.Conn
	model  string
	events chan clientEvent
	ended  chan struct{} // closed after the last event
	lost   error         // why it ended; readable once ended is closed

	prompt prompt
	reply  *reply
}

// clientEvent is the union of the events that clients send.
type clientEvent struct {
	Type string `json:"type"`
	Item struct {
		Content any `json:"content"`
	} `json:"item"`
	Response struct {
		MaxOutputTokens any `json:"max_output_tokens"` // a number or "inf"
		Input           any `json:"input"`
	} `json:"response"`
	Session json.RawMessage `json:"session"`

	// Of simengine.close, an extension for tests: the engine closes with this code.
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

// listen passes the client's events to run.
func (s *session) listen(ctx context.Context) error {
	for {
		_, data, err := s.conn.ReadMessage()
		if err != nil {
			return err
		}
		var ev clientEvent
		if err := json.Unmarshal(data, &ev); err != nil {
			ev = clientEvent{Type: "no JSON"}
		}
		select {
		case s.events <- ev:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// closed answers the client's close frame. It releases the slot first, because the caller may open its next session
// when it sees the answer.
func (s *session) closed(code int, _ string) error {
	s.j.ticket.leave(outcomeServed)
	s.j.e.closeCode.Store(int64(code))
	msg := websocket.FormatCloseMessage(code, "")
	return s.conn.WriteControl(websocket.CloseMessage, msg, time.Now().Add(closeWait))
}

// run is the life of the session. It returns nil after a closing handshake.
func (s *session) run(ctx context.Context) error {
	if s.j.fault == FaultFullInStream {
		if err := s.fail(engineFull()); err != nil {
			return err
		}
		return s.close(outcomeFaulted, websocket.CloseTryAgainLater, "no room")
	}
	if err := s.send(serverEvent{Type: "session.created", Session: s.describe(nil)}); err != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due := timer.C
		if s.reply == nil || s.reply.stalled {
			due = nil
		} else {
			timer.Reset(time.Until(s.reply.due()))
		}
		var err error
		select {
		case <-due:
			err = s.sendToken()
		case ev := <-s.events:
			err = s.handle(ev)
		case <-s.ended:
			return s.closeError()
		}
		if errors.Is(err, errClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errClosed ends a session that its client has asked to close.
var errClosed = errors.New("the session is closed")

// closeError returns the error that ended the session: nil after a close frame.
func (s *session) closeError() error {
	var frame *websocket.CloseError
	if errors.As(s.lost, &frame) && frame.Code != websocket.CloseAbnormalClosure {
		return nil
	}
	return s.lost
}

// close releases the slot, sends a close frame and waits a moment for the client's.
func (s *session) close(o outcome, code int, reason string) error {
	s.j.ticket.leave(o)
	msg := websocket.FormatCloseMessage(code, reason)
	if err := s.conn.WriteControl(websocket.CloseMessage, msg, time.Now().Add(closeWait)); err != nil {
		return err
	}
	limit := time.NewTimer(closeWait)
	defer limit.Stop()
	for {
		select {
		case <-s.events: // no longer of interest
		case <-s.ended:
			return nil
		case <-limit.C:
			return nil
		}
	}
}

func (s *session) send(ev serverEvent) error {
	ev.EventID = "event_" + newID()
	return s.conn.WriteMessage(websocket.TextMessage, marshal(ev))
}

func (s *session) fail(e apiError) error {
	return s.send(serverEvent{Type: "error", Error: &e})
}
